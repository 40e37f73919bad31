"""Memory of the processes of a system over time: samples, their plot, and whether it grows."""

from __future__ import annotations

import contextlib
import csv
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

import psutil
from matplotlib.figure import Figure

from load_tests.scenarios.gates import Verdict
from serve_app.processes.process_tags import read_command

Points = list[tuple[float, int]]
"""Seconds and bytes."""

NAMED = 6  # processes in the legend of the plot
_FEW = 6  # a line through fewer points shows nothing
_MOST_OF_IT = 0.8  # of the second half; a shorter-lived process was replaced, and has not grown


class MemoryWatch:
    """Samples in a thread the memory that each process shares with no other (USS).

    Shared memory would not do, because the share of a process grows when another one ends.

    Args:
        processes: finds the processes that live.
        period_s: from one sample to the next.
    """

    def __init__(self, processes: Callable[[], Sequence[psutil.Process]], period_s: float) -> None:
        self._processes = processes
        self._period_s = period_s
        self._names: dict[psutil.Process, str] = {}
        self._points: dict[psutil.Process, Points] = {}
        self._started = time.monotonic()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_stopped, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    @property
    def points(self) -> dict[str, Points]:
        """Return the samples of each process, by its name."""
        return {
            f"{self._names[process]} ({process.pid})": points
            for process, points in self._points.items()
        }

    def sample(self) -> None:
        """Take one sample of each living process."""
        for process in self._processes():
            with contextlib.suppress(psutil.Error):
                uss = process.memory_full_info().uss
                if process not in self._names:
                    self._names[process] = name_of(read_command(process))
                at = time.monotonic() - self._started
                self._points.setdefault(process, []).append((at, uss))

    def _sample_until_stopped(self) -> None:
        while not self._stopped.is_set():
            self.sample()
            self._stopped.wait(self._period_s)


def name_of(command: Sequence[str]) -> str:
    """Return a name for a process, from the command that started it."""
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


def judge_growth(points: Mapping[str, Points], growth_mb: float) -> Iterator[Verdict]:
    """Judge the growth of each process that lived throughout the second half of a soak."""
    half = max((at for each in points.values() for at, _ in each), default=0.0) / 2
    judged = False
    for name, each in points.items():
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


def draw(points: Mapping[str, Points]) -> Figure:
    """Draw the memory of all processes together, and the change of each since half-time.

    The legend names the processes that have changed most.
    """
    figure = Figure(figsize=(8, 7), layout="constrained")
    whole, each = figure.subplots(2, 1, sharex=True, height_ratios=[1, 2])
    changes = {name: _since_half_time(of) for name, of in points.items()}
    most = sorted(changes, key=lambda name: -abs(changes[name][-1][1]))[:NAMED]
    for name, change in changes.items():
        minutes, megabytes = zip(*((at / 60, size / 1e6) for at, size in change), strict=True)
        style = {"label": name, "lw": 1.5} if name in most else {"color": "#cccccc", "lw": 0.8}
        each.plot(minutes, megabytes, **style)
    each.set_ylabel("MB more than at half-time")
    each.set_xlabel("minutes")
    if most:
        each.legend(frameon=False, fontsize="small")
    whole.plot(*_sums(points), color="#1f78b4")
    whole.set_ylabel("all processes, MB")
    whole.set_ylim(bottom=0)
    for axes in (whole, each):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _since_half_time(points: Points) -> Points:
    first, last = points[0][0], points[-1][0]
    middle = next(size for at, size in points if at >= (first + last) / 2)
    return [(at, size - middle) for at, size in points]


def _sums(points: Mapping[str, Points]) -> tuple[list[float], list[float]]:
    """Add up the samples of all processes that were taken in one round."""
    rounds = max(points.values(), key=len, default=[])
    ends = [at for at, _ in rounds[1:]] + [float("inf")]
    sums = [0.0] * len(rounds)
    for each in points.values():
        for at, size in each:
            sums[next(n for n, end in enumerate(ends) if at < end)] += size / 1e6
    return [at / 60 for at, _ in rounds], sums
