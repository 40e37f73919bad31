"""Whether the memory of processes grows once they have warmed up."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping

from load_tests.run.gates import Verdict
from load_tests.run.memory import Points

_FEW = 6  # a line through fewer points says nothing
_MOST_OF_IT = 0.8  # of the second half: who came or went in it has not grown, but was replaced


def judge_growth(points: Mapping[str, Points], growth_mb: float) -> Iterator[Verdict]:
    """Judge by how much each process that was there has grown in the second half of a soak."""
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
    """Return how many bytes the line of least squares rises from the first point to the last."""
    slope, _ = statistics.linear_regression(*zip(*points, strict=True))
    return slope * (points[-1][0] - points[0][0])
