"""Memory of the processes of a system, over time."""

from __future__ import annotations

import contextlib
import csv
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from serve_app.processes.process_tags import read_command

Points = list[tuple[float, int]]
"""Seconds and bytes."""


class MemoryWatch:
    """Samples, in a thread, what each process has for itself alone (USS).

    What processes share says nothing of one of them, and the share of each grows when another ends.

    Args:
        processes: finds those that live.
        period_s: from one sample to the next.
    """

    def __init__(self, processes: Callable[[], Sequence[psutil.Process]], period_s: float) -> None:
        self._processes = processes
        self._period_s = period_s
        self._names: dict[psutil.Process, str] = {}
        self._points: dict[psutil.Process, Points] = {}
        self._started = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep_looking, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    @property
    def points(self) -> dict[str, Points]:
        """What was sampled, by a name of each process."""
        return {
            f"{self._names[process]} ({process.pid})": points
            for process, points in self._points.items()
        }

    def look(self) -> None:
        """Take one sample of each process that lives."""
        for process in self._processes():
            with contextlib.suppress(psutil.Error):
                uss = process.memory_full_info().uss
                if process not in self._names:
                    self._names[process] = name_of(read_command(process))
                at = time.monotonic() - self._started
                self._points.setdefault(process, []).append((at, uss))

    def _keep_looking(self) -> None:
        while not self._over.is_set():
            self.look()
            self._over.wait(self._period_s)


def name_of(command: Sequence[str]) -> str:
    """Name a process by the command that it was started with."""
    program, *words = command or [""]
    name = program.rsplit("/", 1)[-1]
    if not name.startswith("python"):
        return name.partition(" ")[0] or "unknown"
    if "-m" in words[:-1]:
        return words[words.index("-m") + 1]
    scripts = (word for word in words if word and not word.startswith("-"))
    return next(scripts, name).rsplit("/", 1)[-1]


def write_memory(points: Mapping[str, Points], path: Path) -> None:
    """Write every sample as CSV."""
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["process", "seconds", "uss_mb"])
        for name, each in points.items():
            table.writerows([name, f"{at:.1f}", f"{size / 1e6:.3f}"] for at, size in each)
