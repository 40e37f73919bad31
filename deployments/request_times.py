"""Histograms of request durations, by route and status.

Ray's exporter processes every value of its histograms again. So the buckets are counted here, for
some 0.3 µs a request, and published once a second.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from math import inf

BOUNDS_MS = (
    *(0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 7.5),
    *(10, 20, 50, 100, 250, 500, 1e3, 2e3, 4e3),
)
"""From the duration of one step to the deadlines; finest at a few milliseconds."""

CLIENT_GONE = 499
"""Status of a request whose client has disconnected, as in nginx."""

OTHER_ROUTES = ("", "other")
"""Method and path for all other routes: status, documentation and unknown paths."""

_BOUNDS_S = tuple(bound / 1000 for bound in BOUNDS_MS)


class RouteTimes:
    """The durations of one route's requests, in buckets for each status."""

    def __init__(self) -> None:
        self._counts: dict[int, list[int]] = {}

    def observe(self, status: int, seconds: float) -> None:
        counts = self._counts.get(status)
        if counts is None:
            counts = self._counts[status] = [0] * (len(_BOUNDS_S) + 1)
        counts[bisect_left(_BOUNDS_S, seconds)] += 1

    def totals(self) -> list[int]:
        """Return the count of each bucket, over all statuses."""
        return [sum(counts) for counts in zip(*self._counts.values(), strict=True)]

    def cumulative(self) -> Iterator[tuple[int, float, int]]:
        """Yield status, upper bound in milliseconds, and the count of requests up to it."""
        for status, counts in self._counts.items():
            for bound, count in zip((*BOUNDS_MS, inf), accumulate(counts), strict=True):
                yield status, bound, count


class RequestTimes:
    """The durations of a service's requests since its start.

    Attributes:
        at_work: requests at work.
        routes: by method and path, both from the table of routes, never from a client.
    """

    def __init__(self) -> None:
        self.at_work = 0
        self.routes: dict[tuple[str, str], RouteTimes] = {}

    def of(self, method: str, path: str) -> RouteTimes:
        return self.routes.setdefault((method, path), RouteTimes())
