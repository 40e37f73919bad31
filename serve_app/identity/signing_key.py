"""The key that signs access tokens: from the environment, or made once and kept."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from deployments.access.keys import MIN_SECRET_BYTES
from serve_app.identity.private_file import create_private
from serve_app.settings import InsecureSettingsError, Settings

FILE_NAME = "jwt-secret"


def signing_key(settings: Settings) -> bytes:
    """Return JWT_SECRET's own bytes, or else those of a random key in the data folder.

    Any number of processes may call this at once: all of them get the same key.

    Raises:
        InsecureSettingsError: the key is too short, or missing in production.
    """
    if os.environ.get("JWT_SECRET") == "":
        raise InsecureSettingsError(
            f"JWT_SECRET is empty; a signing key needs at least {MIN_SECRET_BYTES} bytes."
        )
    if settings.jwt_secret is not None:
        key, source = settings.jwt_secret.get_secret_value().encode(), "JWT_SECRET"
    elif settings.environment == "production":
        raise InsecureSettingsError(
            "ENVIRONMENT is production, so JWT_SECRET must be set; a generated key will not do."
        )
    else:
        path = settings.data_dir / FILE_NAME
        key, source = _kept_key(path), str(path)
    if len(key) < MIN_SECRET_BYTES:
        raise InsecureSettingsError(
            f"{source} has {len(key)} bytes; a signing key needs at least {MIN_SECRET_BYTES}."
        )
    return key


def configured_signing_key(settings: Settings | None = None) -> bytes:
    """Return the key for a replica, which never makes one.

    Raises:
        InsecureSettingsError: as above, and when no key was made on this machine.
    """
    settings = settings or Settings()
    if settings.jwt_secret is None and not (settings.data_dir / FILE_NAME).exists():
        raise InsecureSettingsError(
            "This machine has no generated signing key; set the same JWT_SECRET on every node."
        )
    return signing_key(settings)


def _kept_key(path: Path) -> bytes:
    if not path.exists():
        create_private(path, secrets.token_urlsafe(48).encode())
    return path.read_bytes().strip()
