"""What the supervisor records of a process: its start, its restarts, and its last error."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from models.atomic_write import atomic_write


@dataclass(frozen=True)
class Status:
    """The status of a supervised process.

    Attributes:
        since: start of the process, in seconds of Unix time; None while it does not run.
        restarts: how often it has ended since ``greenwave up``.
        error: why it ended or could not start the last time, in one sentence.
    """

    since: float | None = None
    restarts: int = 0
    error: str | None = None


class StatusFile:
    """The file of one process. Failures to write are ignored: the process matters more."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Status:
        try:
            return Status(**json.loads(self._path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return Status()

    def record_start(self, since: float) -> None:
        before = self.read()
        self._write(Status(since, before.restarts, before.error))

    def record_end(self, error: str) -> None:
        before = self.read()
        error = error.partition("\n")[0]
        self._write(Status(None, before.restarts + (before.since is not None), error))

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)

    def _write(self, status: Status) -> None:
        try:
            with atomic_write(self._path) as file:
                file.write(json.dumps(asdict(status)).encode())
        except OSError:
            return
