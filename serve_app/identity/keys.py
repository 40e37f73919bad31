"""The keys that sign access tokens: the one key of a simple installation, or a file of several."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

from deployments.access.keys import (
    MIN_SECRET_BYTES,
    InvalidKeysError,
    Key,
    Keys,
    read_keys,
    write_keys,
)
from models.atomic_write import atomic_write
from serve_app.files import acquire_file_lock, create_private
from serve_app.settings import InsecureSettingsError, Settings, read_secret_file

FILE_NAME = "jwt-keys.json"
SECRET_FILE_NAME = "jwt-secret"
MAX_BYTES = 1 << 20
LOCK_TIMEOUT_S = 10.0


def key_file(settings: Settings) -> Path:
    """Return the place of the file of keys, which need not exist."""
    return settings.jwt_keys_file or settings.data_dir / FILE_NAME


def check_keys(settings: Settings) -> None:
    """Check the keys before anything is started, and create the first one if necessary.

    Raises:
        InsecureSettingsError: none can sign, or one is not safe.
    """
    if not _has_file(settings):
        signing_key(settings)
    ConfiguredKeys(settings)()


class ConfiguredKeys:
    """Reads the keys of this machine, again when their file has changed.

    A file of keys comes first. Without one, the only key is ``JWT_SECRET`` or the generated one;
    none is ever created here.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings()
        self._path = key_file(self._settings)
        self._seen: object = None
        self._keys: Keys | None = None

    def __call__(self) -> Keys:
        """Return the keys, the same object while they are the same.

        Raises:
            InsecureSettingsError: they cannot be used; the message shows none of them.
        """
        seen = self._look()
        if self._keys is None or seen != self._seen:
            self._keys = _read(self._path) if seen else _only_key(self._settings)
            self._seen = seen
        return self._keys

    def _look(self) -> object:
        if not _has_file(self._settings):
            return None
        found = self._path.stat()
        return found.st_ino, found.st_mtime_ns, found.st_size


@contextlib.contextmanager
def locked_keys(settings: Settings) -> Iterator[Keys]:
    """Yield the keys, which no other process on this machine changes meanwhile.

    A configured file that does not exist yet may be about to be created: until then, the key of an
    installation without a file is valid.

    Raises:
        InsecureSettingsError: they cannot be used.
        OSError: their folder cannot be written to.
        TimeoutError: another process is changing them.
    """
    path = key_file(settings)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = os.open(path.parent, os.O_RDONLY)  # a lock of the file would be replaced with it
    try:
        if not acquire_file_lock(folder, LOCK_TIMEOUT_S):
            raise TimeoutError(f"another process is changing {path}")
        yield _read(path) if path.exists() else _only_key(settings)
    finally:
        os.close(folder)


def write_key_file(settings: Settings, keys: Iterable[Key]) -> Path:
    """Write the file whole, for its owner only, and return its place.

    Raises:
        InvalidKeysError: the keys could not be read again.
    """
    path, content = key_file(settings), write_keys(keys)
    read_keys(content)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with atomic_write(path, mode=0o600) as file:
        file.write(content)
    return path


def signing_key(settings: Settings, *, create: bool = True) -> bytes:
    """Return the key of an installation without a file of keys.

    It is ``JWT_SECRET``, or a random key that is kept in the data folder. Any number of processes
    may create it at once: all of them get the same key.

    Args:
        create: replicas pass False, so that they never create a key.

    Raises:
        InsecureSettingsError: the key is too short, is missing in production, or has not been
            created on this machine.
    """
    if os.environ.get("JWT_SECRET") == "":
        raise InsecureSettingsError(
            f"JWT_SECRET is empty; a signing key needs at least {MIN_SECRET_BYTES} bytes."
        )
    path = settings.data_dir / SECRET_FILE_NAME
    if settings.jwt_secret is not None:
        key, source = settings.jwt_secret.get_secret_value().encode(), "JWT_SECRET"
    elif not create and not path.exists():
        raise InsecureSettingsError(
            "This machine has no generated signing key. Set the same JWT_SECRET on every node."
        )
    elif settings.environment == "production":
        raise InsecureSettingsError(
            "ENVIRONMENT is production, so JWT_SECRET must be set: generated keys are refused."
        )
    else:
        if not path.exists():
            create_private(path, secrets.token_urlsafe(48).encode())
        key, source = path.read_bytes().strip(), str(path)
    if len(key) < MIN_SECRET_BYTES:
        raise InsecureSettingsError(
            f"{source} has {len(key)} bytes; a signing key needs at least {MIN_SECRET_BYTES}."
        )
    return key


def _only_key(settings: Settings) -> Keys:
    return Keys.of_secret(signing_key(settings, create=False))


def _has_file(settings: Settings) -> bool:
    path = key_file(settings)
    if path.exists():
        return True
    if settings.jwt_keys_file is not None:
        raise InsecureSettingsError(f"JWT_KEYS_FILE names {path}, which does not exist.")
    return False


def _read(path: Path) -> Keys:
    try:
        return read_keys(read_secret_file(path, "signing keys", MAX_BYTES))
    except InvalidKeysError as error:
        raise InsecureSettingsError(f"{path} has no usable keys: {error}.") from None
