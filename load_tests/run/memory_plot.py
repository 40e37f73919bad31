"""The plot of a soak."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure

from load_tests.run.memory import Points

NAMED = 6


def draw(points: Mapping[str, Points]) -> Figure:
    """Draw the memory of all processes together, and by how much each has changed since half-time.

    Those that have changed most are named.
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


def save(figure: Figure, path: Path) -> None:
    """Write the picture, the same for the same figures."""
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _since_half_time(points: Points) -> Points:
    first, last = points[0][0], points[-1][0]
    middle = next(size for at, size in points if at >= (first + last) / 2)
    return [(at, size - middle) for at, size in points]


def _sums(points: Mapping[str, Points]) -> tuple[list[float], list[float]]:
    """Add up what was sampled at about the same time: within one look at all processes."""
    looks = max(points.values(), key=len, default=[])
    ends = [at for at, _ in looks[1:]] + [float("inf")]
    sums = [0.0] * len(looks)
    for each in points.values():
        for at, size in each:
            sums[next(n for n, end in enumerate(ends) if at < end)] += size / 1e6
    return [at / 60 for at, _ in looks], sums
