"""What a gateway replica reports: Ray metrics, and telemetry for an open console."""

from __future__ import annotations

from collections import Counter

from ray.serve import metrics

from deployments.feed.messages import Contents, Demand
from deployments.gateway.service import GatewayService
from deployments.metrics.exported import Total
from deployments.request_times import RequestTimes


class GatewayMetrics:
    """Ray metrics of one replica; to be created in the replica's constructor."""

    def __init__(self, service: GatewayService) -> None:
        self._service = service
        self._logins = Total(
            "gateway_logins", "Logins: success, or the status of the refusal", ("outcome",)
        )
        self._actions = Total(
            "gateway_actions", "Answers, fallbacks included", ("junction", "signal")
        )
        self._fallbacks = Total("gateway_fallbacks", "Answers without the policy", ("cause",))
        self._breaker = metrics.Gauge(
            "gateway_breaker_state", "Circuit breaker: 0 closed, 1 half open, 2 open"
        )
        self._latency_ms = metrics.Histogram(
            "gateway_inference_latency_ms",
            "The inference service as seen by the gateway, a sample of the answers",
            boundaries=[0.5, 1, 2, 3, 5, 8, 13, 21, 50, 100, 500, 2000],
        )

    def publish(self) -> None:
        """Publish what has come since the last call."""
        counts = self._service.counts
        self._logins.publish(counts.logins)
        self._actions.publish(counts.actions)
        self._fallbacks.publish(counts.fallbacks)
        self._breaker.set(self._service.breaker_state)
        for seconds in counts.latencies_s.take():
            self._latency_ms.observe(max(seconds, 1e-6) * 1000)


class GatewayReporter:
    """Implements :class:`~deployments.feed.publisher.Reporter`."""

    def __init__(self, service: GatewayService, times: RequestTimes) -> None:
        self._service = service
        self._fallbacks = service.watched_fallbacks
        self._times = times.of("POST", "/traffic/action")

    def on_demand_changed(self, demand: Demand) -> None:
        self._fallbacks.on_demand_changed(demand)

    def take(self) -> Contents:
        counts = self._service.counts
        fallbacks = self._fallbacks.take()
        return Contents(
            counts.actions.total(),
            int(self._service.breaker_state),
            dict(counts.fallbacks),
            self._times.totals(),
            Counter(each.run for each in fallbacks),
            [each for each in fallbacks if each.run in self._fallbacks.runs],
        )
