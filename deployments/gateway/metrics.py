"""Publishes the gateway's counts as Ray metrics once a second, off the hot path."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ray.serve import metrics

from deployments.gateway.service import GatewayService

PERIOD_S = 1.0


class _Total:
    """A Ray counter that follows the totals of a Counter, whose keys are the values of its tags."""

    def __init__(self, name: str, description: str, tags: tuple[str, ...]) -> None:
        self._counter = metrics.Counter(name, description, tag_keys=tags)
        self._tags = tags
        self._published: Counter[Any] = Counter()

    def publish(self, totals: Mapping[Any, int]) -> None:
        for key, total in list(totals.items()):
            new = total - self._published[key]
            if new:
                values = key if isinstance(key, tuple) else (key,)
                self._counter.inc(new, dict(zip(self._tags, values, strict=True)))
                self._published[key] = total


class GatewayMetrics:
    """Ray metrics of one replica; to be created in the replica's constructor."""

    def __init__(self) -> None:
        self._logins = _Total(
            "gateway_logins", "Logins: success, or the status of the refusal", ("outcome",)
        )
        self._actions = _Total(
            "gateway_actions", "Answers, fallbacks included", ("junction", "signal")
        )
        self._fallbacks = _Total("gateway_fallbacks", "Answers without the policy", ("cause",))
        self._breaker = metrics.Gauge(
            "gateway_breaker_state", "Circuit breaker: 0 closed, 1 half open, 2 open"
        )
        self._latency_ms = metrics.Histogram(
            "gateway_inference_latency_ms",
            "The inference service as seen by the gateway, a sample of the answers",
            boundaries=[0.5, 1, 2, 3, 5, 8, 13, 21, 50, 100, 500, 2000],
        )

    def publish(self, service: GatewayService) -> None:
        """Publish what has come since the last call."""
        counts = service.counts
        self._logins.publish(counts.logins)
        self._actions.publish(counts.actions)
        self._fallbacks.publish(counts.fallbacks)
        self._breaker.set(service.breaker_state)
        latencies_s, counts.latencies_s = counts.latencies_s, []
        for seconds in latencies_s:
            self._latency_ms.observe(max(seconds, 1e-6) * 1000)

    async def publish_forever(self, service: GatewayService) -> None:
        while True:
            await asyncio.sleep(PERIOD_S)
            self.publish(service)
