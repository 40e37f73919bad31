"""Ray's own token: without it, who reaches one of Ray's ports runs code as this user.

It is the user's, at the place where Ray, its commands and :mod:`.dashboard` look for it.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from serve_app.identity.private_file import create_private

MODE = "RAY_AUTH_MODE"
TOKEN = "RAY_AUTH_TOKEN"
TOKEN_PATH = "RAY_AUTH_TOKEN_PATH"


def default_path() -> Path:
    return Path.home() / ".ray" / "auth_token"


def asks_for_token() -> bool:
    """Whether a Ray that is started with this environment asks for the token."""
    return os.environ.get(MODE) in (None, "token")


def token_mode() -> dict[str, str]:
    """Return what has Ray ask for a token, and make one if there is none.

    A mode that the user has chosen stays, and so does a token in the environment.

    Raises:
        OSError: the token cannot be kept.
    """
    if asks_for_token():
        if not (os.environ.get(TOKEN) or os.environ.get(TOKEN_PATH)):
            _keep(default_path())
        return {MODE: "token"}
    return {}


def read_token() -> str | None:
    """Return the token from the places that Ray itself looks in, in the same order."""
    if token := os.environ.get(TOKEN):
        return token.strip()
    try:
        return (
            Path(os.environ.get(TOKEN_PATH) or default_path()).read_text(encoding="utf-8").strip()
        )
    except OSError:
        return None


def _keep(path: Path) -> None:
    create_private(path, secrets.token_hex(32).encode())
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)  # Ray writes it as readable as any file
