"""The first user of the gateway: named by the environment, or created by ``greenwave up``."""

from __future__ import annotations

import hashlib
import json
import secrets
from pathlib import Path
from typing import NamedTuple

from deployments.gateway.users import Users, hash_password
from deployments.store import Store
from serve_app.files import create_private
from serve_app.settings import InsecureSettingsError, Settings

FIRST_USER = "operator"
FILE_NAME = "first-user.json"


class Credentials(NamedTuple):
    username: str
    password: str


def configured_users(settings: Settings) -> dict[str, str]:
    """Return the user of JWT_AUTH_USERNAME with the hash of the password, if there is one.

    Raises:
        InsecureSettingsError: only one of the two variables is set, or one is blank.
    """
    username, password = settings.jwt_auth_username, settings.jwt_auth_password
    if username is None and password is None:
        return {}
    if not (username or "").strip() or password is None or not password.get_secret_value().strip():
        raise InsecureSettingsError(
            "JWT_AUTH_USERNAME and JWT_AUTH_PASSWORD must be set together, and not blank."
        )
    # A salt from the name gives every process the same hash, which its tokens refer to.
    salt = hashlib.sha256(f"greenwave {username}".encode()).digest()[:16]
    return {str(username): hash_password(password.get_secret_value(), salt)}


async def create_first_user(settings: Settings, store: Store) -> Credentials | None:
    """Create a user with a random password if there is no user.

    The store has the hash only. The password is kept beside the signing key, with the same mode:
    a reader of the key could create any token.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    users = Users(store)
    if settings.jwt_auth_username is not None or await users.scopes():
        return None
    credentials = Credentials(FIRST_USER, secrets.token_urlsafe(12))
    await users.add(*credentials)
    path = settings.data_dir / FILE_NAME
    path.unlink(missing_ok=True)
    create_private(path, json.dumps(credentials._asdict()).encode())
    return credentials


def known_credentials(settings: Settings) -> Credentials | None:
    """Return the credentials of the environment, or those of the first user while they are kept."""
    username, password = settings.jwt_auth_username, settings.jwt_auth_password
    if username is not None and password is not None:
        return Credentials(username, password.get_secret_value())
    try:
        return Credentials(**json.loads((settings.data_dir / FILE_NAME).read_bytes()))
    except FileNotFoundError:
        return None


def delete_first_user_file(data_dir: Path, username: str) -> None:
    """Delete the kept password of this user, which is no longer valid."""
    path = data_dir / FILE_NAME
    if path.exists() and json.loads(path.read_bytes())["username"] == username:
        path.unlink()
