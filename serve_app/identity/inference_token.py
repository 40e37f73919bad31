"""The token that clients of the inference service must send, if the operator sets one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from serve_app.settings import InsecureSettingsError, Settings

VARIABLE = "INFERENCE_TOKEN"
MIN_BYTES = 32  # as of a signing key
MAX_BYTES = 4096

OpenTokens = Callable[[], tuple[str, ...]]


def inference_tokens(settings: Settings | None = None) -> tuple[str, ...]:
    """Return the accepted tokens, of which the first is sent; none without a configured token.

    Raises:
        InsecureSettingsError: one is not safe; the message shows none of them.
    """
    settings = settings or Settings()
    if os.environ.get(VARIABLE) == "":
        raise InsecureSettingsError(f"{VARIABLE} is empty. Unset it to ask for no token.")
    given, path = settings.inference_token, settings.inference_token_file
    if given is not None and path is not None:
        raise InsecureSettingsError(
            f"Both {VARIABLE} and {VARIABLE}_FILE are set. Unset one of them."
        )
    if path is not None:
        tokens, source = tuple(_read(path).split()), str(path)
        if not tokens:
            raise InsecureSettingsError(f"{path} has no token.")
    elif given is not None:
        tokens, source = (given.get_secret_value(),), VARIABLE
    else:
        return ()
    for token in tokens:
        _check(token, source)
    return tokens


def required_inference_tokens() -> tuple[str, ...]:
    """Return the tokens for a replica of a service that requires one.

    Raises:
        InsecureSettingsError: one is not safe, or this machine has none.
    """
    if tokens := inference_tokens():
        return tokens
    raise InsecureSettingsError(
        f"This machine has no {VARIABLE}. Set the same one on every node of the cluster."
    )


def configured_tokens(settings: Settings) -> OpenTokens | None:
    """Return a reader for replicas: Ray would store tokens that are bound to a deployment."""
    return required_inference_tokens if inference_tokens(settings) else None


def token_headers(settings: Settings | None = None) -> dict[str, str]:
    """Return the headers for requests to the inference service."""
    tokens = inference_tokens(settings)
    return {"Authorization": f"Bearer {tokens[0]}"} if tokens else {}


def _read(path: Path) -> str:
    try:
        found = path.stat()
        if found.st_mode & 0o007:
            raise InsecureSettingsError(
                f"{path} has a token, and every user can read it. Set its mode to 0600."
            )
        if found.st_size > MAX_BYTES:
            raise InsecureSettingsError(f"{path} is larger than {MAX_BYTES} bytes.")
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InsecureSettingsError(f"Cannot read {path}: {error.strerror}.") from None


def _check(token: str, source: str) -> None:
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise InsecureSettingsError(f"{source} has a token that is not of printable ASCII.")
    if len(token) < MIN_BYTES:
        raise InsecureSettingsError(
            f"{source} has a token of {len(token)} bytes; it needs at least {MIN_BYTES}."
        )
