"""What a keeper notes of its charge: since when it runs, how often it died, and why."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from models.atomic_write import atomic_write


@dataclass(frozen=True)
class Entry:
    """The life of what is kept.

    Attributes:
        since: start of the present life, in seconds of Unix time; None while it does not run.
        restarts: lives that ended since the instance was brought up.
        trouble: why the last one ended or could not begin, in one sentence; None if none did.
    """

    since: float | None = None
    restarts: int = 0
    trouble: str | None = None


class Journal:
    """One keeper's file; a full disk costs the note alone."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Entry:
        try:
            return Entry(**json.loads(self._path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return Entry()

    def note_started(self, since: float | None = None) -> None:
        before = self.read()
        self._write(Entry(since or time.time(), before.restarts, before.trouble))

    def note_ended(self, trouble: str) -> None:
        before = self.read()
        trouble = trouble.partition("\n")[0]
        self._write(Entry(None, before.restarts + (before.since is not None), trouble))

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)

    def _write(self, entry: Entry) -> None:
        try:
            with atomic_write(self._path) as file:
                file.write(json.dumps(asdict(entry)).encode())
        except OSError:
            return
