"""What a gateway replica tells the console, while one is open."""

from __future__ import annotations

from deployments.feed.messages import Contents, Demand
from deployments.gateway.service import GatewayService
from deployments.request_times import RequestTimes


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
        fallbacks, runs = self._fallbacks.take()
        return Contents(
            counts.actions.total(),
            {"breaker": float(self._service.breaker_state)},
            dict(counts.fallbacks),
            self._times.totals(),
            runs,
            fallbacks,
        )
