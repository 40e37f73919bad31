"""The requests of a service as Ray metrics."""

from __future__ import annotations

from math import inf

from ray.serve import metrics

from deployments.metrics.total import Total
from deployments.request_times import RequestTimes


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
        """Publish what has come since the last call."""
        for (method, path), route in self._times.routes.items():
            self._buckets.publish(
                {
                    (method, path, status, "+Inf" if bound == inf else f"{bound:g}"): count
                    for status, bound, count in route.cumulative()
                }
            )
        self._at_work.set(self._times.at_work)
