"""Memory of the processes of a system over time, and whether it grows."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

import psutil

from load_tests.scenarios.gates import Verdict
from serve_app.processes.process_tags import read_command

Points = list[tuple[float, int]]
"""Seconds and bytes."""

_FEW = 6  # a line through fewer points shows nothing
_MOST_OF_IT = 0.8  # of the second half; a shorter-lived process was replaced, and has not grown


class MemoryWatch:
    """Samples the memory that each process shares with no other (USS).

    Shared memory would not do, because the share of a process grows when another one ends.

    Args:
        processes: finds the processes that live.
    """

    def __init__(self, processes: Callable[[], Sequence[psutil.Process]]) -> None:
        self._processes = processes
        self._started = time.monotonic()
        self.points: dict[str, Points] = {}

    def sample(self) -> None:
        """Take one sample of each living process."""
        for process in self._processes():
            with contextlib.suppress(psutil.Error):
                uss = process.memory_full_info().uss
                command = " ".join(word.rpartition("/")[2] for word in read_command(process))
                name = f"{command.strip()[:50]} ({process.pid})"
                at = time.monotonic() - self._started
                self.points.setdefault(name, []).append((at, uss))

    def judge(self, growth_mb: float) -> Iterator[Verdict]:
        """Judge the growth of each process that lived throughout the second half."""
        half = max((at for each in self.points.values() for at, _ in each), default=0.0) / 2
        judged = False
        for name, each in self.points.items():
            second = [(at, size) for at, size in each if at >= half]
            if len(second) >= _FEW and second[-1][0] - second[0][0] > _MOST_OF_IT * half:
                judged = True
                yield Verdict(name, "growth_mb", growth_mb, fitted_growth(second) / 1e6)
        if not judged:
            yield Verdict("every process", "growth_mb", growth_mb, None)


def fitted_growth(points: Points) -> float:
    """Return by how many bytes the line of least squares rises from the first point to the last."""
    slope, _ = statistics.linear_regression(*zip(*points, strict=True))
    return slope * (points[-1][0] - points[0][0])
