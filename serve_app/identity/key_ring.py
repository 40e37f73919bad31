"""The keys that sign access tokens: the one of a simple installation, or a file of several."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from deployments.access.keys import InvalidKeysError, Key, Keys, read_keys, write_keys
from models.atomic_write import atomic_write
from serve_app.file_lock import acquire_file_lock
from serve_app.identity.signing_key import configured_signing_key, signing_key
from serve_app.settings import InsecureSettingsError, Settings

FILE_NAME = "jwt-keys.json"
MAX_BYTES = 1 << 20
PATIENCE_S = 10.0


def key_file(settings: Settings) -> Path:
    """Return where the file of keys is, if there is one."""
    return settings.jwt_keys_file or settings.data_dir / FILE_NAME


def check_keys(settings: Settings) -> None:
    """Refuse keys that are not safe, before anything is started; make the first one if need be.

    Raises:
        InsecureSettingsError: there is none that could sign, or one is not safe.
    """
    if not _has_file(settings):
        signing_key(settings)
    ConfiguredKeys(settings)()


class ConfiguredKeys:
    """Reads the keys of this machine, again when their file has changed.

    Where there is a file of keys, it alone counts. Without, the one key is that of ``JWT_SECRET``,
    or the kept one; none is ever made here.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings()
        self._path = key_file(self._settings)
        self._seen: object = None
        self._keys: Keys | None = None

    def __call__(self) -> Keys:
        """Return the keys, the same object while they are the same.

        Raises:
            InsecureSettingsError: they cannot be used; the message says why, without any of them.
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
def changing_keys(settings: Settings) -> Iterator[Keys]:
    """Yield the keys as they are; nobody else on this machine changes them meanwhile.

    A file that is configured and not there yet may be about to be made: until then the key counts
    that would count without it.

    Raises:
        InsecureSettingsError: they cannot be used.
        OSError: their folder cannot be written to.
        TimeoutError: somebody else changes them, and does not come to an end.
    """
    path = key_file(settings)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = os.open(path.parent, os.O_RDONLY)  # the file is replaced whole, and a lock with it
    try:
        if not acquire_file_lock(folder, PATIENCE_S):
            raise TimeoutError(f"somebody else changes {path}")
        yield _read(path) if path.exists() else _only_key(settings)
    finally:
        os.close(folder)


def write_key_file(path: Path, keys: Iterable[Key]) -> None:
    """Write the file, whole and for its owner alone.

    Raises:
        InvalidKeysError: the keys could not be read again.
    """
    content = write_keys(keys)
    read_keys(content)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with atomic_write(path, mode=0o600) as file:
        file.write(content)


def _has_file(settings: Settings) -> bool:
    path = key_file(settings)
    if path.exists():
        return True
    if settings.jwt_keys_file is not None:
        raise InsecureSettingsError(f"JWT_KEYS_FILE names {path}, and there is no such file.")
    return False


def _read(path: Path) -> Keys:
    try:
        found = path.stat()
        if found.st_mode & 0o007:
            raise InsecureSettingsError(f"{path} has signing keys, and everybody may read it.")
        if found.st_size > MAX_BYTES:
            raise InsecureSettingsError(f"{path} is larger than {MAX_BYTES} bytes.")
        return read_keys(path.read_bytes())
    except OSError as error:
        raise InsecureSettingsError(f"{path} cannot be read: {error.strerror}.") from None
    except InvalidKeysError as error:
        raise InsecureSettingsError(f"{path} has no keys that can be used: {error}.") from None


def _only_key(settings: Settings) -> Keys:
    return Keys.of_secret(configured_signing_key(settings))
