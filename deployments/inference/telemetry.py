"""What an inference replica tells the console, while one is open."""

from __future__ import annotations

from deployments.feed.messages import Contents, Demand
from deployments.inference.service import InferenceService
from deployments.request_times import RequestTimes


class InferenceReporter:
    """Implements :class:`~deployments.feed.publisher.Reporter`."""

    def __init__(self, service: InferenceService, times: RequestTimes) -> None:
        self._policies = service.policies
        self._leases = service.leases
        self._times = times.of("POST", "/predict_action")

    def on_demand_changed(self, demand: Demand) -> None:
        self._policies.watched_steps.on_demand_changed(demand)

    def take(self) -> Contents:
        policies = self._policies
        decisions, runs = policies.watched_steps.take(policies.files)
        steps = sum(counts.predictions.total() for counts in policies.counts.values())
        lag_ms = self._leases.counts.commit_lag_s * 1000
        return Contents(
            steps,
            {"commit_lag_ms": lag_ms},
            latencies=self._times.totals(),
            runs=runs,
            decisions=decisions,
        )
