"""Configs that were deployed successfully, for restarts of Ray and for rollbacks."""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from models.atomic_write import atomic_write
from serve_app.errors import DeployError
from serve_app.files import acquire_file_lock

KEPT = 10
LOCK_TIMEOUT_S = 3.0


class Releases:
    """A folder with a numbered file for each release, and files that may become one.

    A *staged* config is being deployed by a command. A *pending* one is deployed by the supervisor
    of Ray when it starts Ray.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def pending(self) -> Path:
        return self._folder / "pending.json"

    @property
    def _staged(self) -> Path:
        return self._folder / "staged.json"

    def current(self) -> dict[str, Any] | None:
        """Return the newest config that was deployed successfully."""
        return next((_read(path) for path in reversed(self._files())), None)

    def previous(self) -> dict[str, Any] | None:
        """Return the one before it."""
        return next((_read(path) for path in reversed(self._files()[:-1])), None)

    def wanted(self) -> dict[str, Any] | None:
        """Return the config for a Ray that has just started."""
        return _read(self.pending) if self.pending.exists() else self.current()

    def set_pending(self, config: dict[str, Any]) -> None:
        """Want a config until it is added as a release, or discarded.

        Raises:
            DeployError: it cannot be written.
        """
        _write(self.pending, config)

    def stage(self, config: dict[str, Any]) -> Path:
        """Write a config before the cluster receives it, so that a full disk shows in time.

        Raises:
            DeployError: it cannot be written.
        """
        _write(self._staged, config)
        return self._staged

    def discard_pending(self) -> None:
        """Forget what has not become a release."""
        for path in (self.pending, self._staged):
            path.unlink(missing_ok=True)

    def add(self, file: Path) -> None:
        """Make the staged or pending config the current release, and forget the oldest ones."""
        files = self._files()
        if _read(file) != self.current():
            number = int(files[-1].stem) + 1 if files else 1
            file.replace(self._folder / f"{number:06}.json")
            for path in files[: -(KEPT - 1)]:
                path.unlink(missing_ok=True)
        self.discard_pending()

    def undo(self, file: Path) -> None:
        """Forget the current release; the staged config is the one before it, with today's code."""
        current, *others = reversed(self._files())
        for path in others[:1]:
            file.replace(path)
        current.unlink(missing_ok=True)
        self.discard_pending()

    @contextlib.contextmanager
    def rollout_lock(self, timeout_s: float | None = None) -> Iterator[None]:
        """Exclude other rollouts, from the first change to the last check or the restoration.

        The supervisor of Ray does not wait for it: a rollout waits for the Ray that it restarts.

        Raises:
            DeployError: another rollout is still in progress after the timeout.
        """
        with self._open_lock("rollout") as file:
            if not acquire_file_lock(file, LOCK_TIMEOUT_S if timeout_s is None else timeout_s):
                raise DeployError("Another deploy is in progress.")
            yield

    @contextlib.contextmanager
    def deploy_lock(self) -> Iterator[None]:
        """Wait until no other process sends a config to the cluster."""
        with self._open_lock("deploy") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _open_lock(self, name: str) -> TextIO:
        path = self._folder / name
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            return path.open("w")
        except OSError as error:
            raise _write_error(path, error) from error

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("[0-9]*.json"))


def _read(path: Path) -> dict[str, Any] | None:
    with contextlib.suppress(OSError, ValueError):
        config = json.loads(path.read_text(encoding="utf-8"))
        return config if isinstance(config, dict) else None
    return None


def _write(path: Path, config: dict[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with atomic_write(path, mode=0o600) as file:
            file.write(json.dumps(config, indent=1).encode())
    except OSError as error:
        raise _write_error(path, error) from error


def _write_error(path: Path, error: OSError) -> DeployError:
    reason = f"Cannot write the release to {path.parent}: {error.strerror}"
    return DeployError(f"{reason}. Nothing has been changed.")
