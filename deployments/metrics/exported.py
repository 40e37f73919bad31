"""Ray metrics of totals that are counted elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import inf
from typing import Any

from ray.serve import metrics

from deployments.ray_private.core import count_nothing
from deployments.request_times import RequestTimes


class Total:
    """A Ray counter that follows a total; to be created in a replica.

    Args:
        tags: names for the values in the totals' keys: tuples, or for one tag plain values.
    """

    def __init__(self, name: str, description: str, tags: tuple[str, ...]) -> None:
        self._counter = metrics.Counter(name, description, tag_keys=tags)
        self._tags = tags
        self._published: Counter[Any] = Counter()

    def publish(self, totals: Mapping[Any, int]) -> None:
        """Add what was counted since the last call; export a new key at 0 first.

        So no series is ever absent, and Prometheus sees its first increase.
        """
        for key, total in list(totals.items()):
            new = total - self._published[key]
            if new:
                self._counter.inc(new, self._named(key))
            elif key not in self._published:
                count_nothing(self._counter, self._named(key))
            self._published[key] = total

    def _named(self, key: Any) -> dict[str, str]:
        values = key if isinstance(key, tuple) else (key,)
        return dict(zip(self._tags, map(str, values), strict=True))


class RequestMetrics:
    """Ray metrics of one replica; to be created in the replica.

    The buckets are a counter with the tag ``le``, which ``histogram_quantile`` takes as it is.
    """

    def __init__(self, times: RequestTimes) -> None:
        self._times = times
        self._buckets = Total(
            "http_request_ms_bucket",
            "Requests by the milliseconds that they took in the service, cumulative; status 499 "
            "where the client had gone",
            ("method", "route", "status", "le"),
        )
        self._at_work = metrics.Gauge(
            "http_requests_at_work", "Requests that the service works on, or has waiting"
        )

    def publish(self) -> None:
        """Publish what was counted since the last call."""
        for (method, path), route in self._times.routes.items():
            self._buckets.publish(
                {
                    (method, path, status, "+Inf" if bound == inf else f"{bound:g}"): count
                    for status, bound, count in route.cumulative()
                }
            )
        self._at_work.set(self._times.at_work)
