"""The configs that were deployed with success, so that Ray can be started anew, and rolled back."""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from models.atomic_write import atomic_write
from serve_app.file_lock import acquire_file_lock
from serve_app.rollout.deploy import DeployError

KEPT = 10
PATIENCE_S = 3.0


class Releases:
    """A folder with one file for each release, numbered upwards, and what may become one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def trial(self) -> Path:
        """The config that a start of Ray has to prove good."""
        return self._folder / "trial.json"

    @property
    def _staged(self) -> Path:
        return self._folder / "staged.json"

    def current(self) -> dict[str, Any] | None:
        """Return the newest config that was deployed with success."""
        return next((_read(path) for path in reversed(self._files())), None)

    def previous(self) -> dict[str, Any] | None:
        """Return the one before it."""
        return next((_read(path) for path in reversed(self._files()[:-1])), None)

    def wanted(self) -> dict[str, Any] | None:
        """Return what a Ray that has just started shall serve."""
        return _read(self.trial) if self.trial.exists() else self.current()

    def try_out(self, config: dict[str, Any]) -> None:
        """Want a config until it has proved good or bad.

        Raises:
            DeployError: it cannot be written.
        """
        _write(self.trial, config)

    def stage(self, config: dict[str, Any]) -> Path:
        """Write what shall become a release, before the cluster hears of it: a full disk shows now.

        Raises:
            DeployError: it cannot be written.
        """
        _write(self._staged, config)
        return self._staged

    def end_trial(self) -> None:
        """Forget what has not become a release."""
        for path in (self.trial, self._staged):
            path.unlink(missing_ok=True)

    def add(self, candidate: Path) -> None:
        """Make what was staged or on trial the current one, and forget the oldest beyond ten."""
        files = self._files()
        if _read(candidate) != self.current():
            number = int(files[-1].stem) + 1 if files else 1
            candidate.replace(self._folder / f"{number:06}.json")
            for path in files[: -(KEPT - 1)]:
                path.unlink(missing_ok=True)
        self.end_trial()

    def undo(self, candidate: Path) -> None:
        """Forget the current one; what was staged is the one before it, with the code of today."""
        current, *others = reversed(self._files())
        for path in others[:1]:
            candidate.replace(path)
        current.unlink(missing_ok=True)
        self.end_trial()

    @contextlib.contextmanager
    def rollout(self) -> Iterator[None]:
        """Be the only one who deploys, from the first change to the last look or the way back.

        The keeper of Ray has no part in this: it takes turns, since a rollout waits for the Ray
        that it starts again.

        Raises:
            DeployError: somebody else deploys still when the patience is over.
        """
        with self._lock("rollout") as file:
            if not acquire_file_lock(file, PATIENCE_S):
                raise DeployError("Another deploy is under way.")
            yield

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until nobody else changes what the cluster serves."""
        with self._lock("turn") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _lock(self, name: str) -> TextIO:
        path = self._folder / name
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            return path.open("w")
        except OSError as error:
            raise _refusal(path, error) from error

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
        raise _refusal(path, error) from error


def _refusal(path: Path, error: OSError) -> DeployError:
    reason = f"The release cannot be written to {path.parent}: {error.strerror}"
    return DeployError(f"{reason}. Nothing has been changed.")
