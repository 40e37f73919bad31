"""Answers without the policy that somebody watches, noted beside the requests and told later."""

from __future__ import annotations

import time
from collections import Counter, deque

from deployments.feed.messages import NOBODY, Decision, Demand
from deployments.gateway.action_request import ActionQuery
from deployments.http.names import DEFAULT_RUN

MAX_FALLBACKS = 50


class WatchedFallbacks:
    """Keeps the latest answers without the policy.

    Attributes:
        watched: whether anybody watches; while nobody does, nothing is to be noted.
    """

    def __init__(self) -> None:
        self.watched = False
        self._runs: frozenset[str] = frozenset()
        self._fallbacks: deque[Decision] = deque(maxlen=MAX_FALLBACKS)

    def on_demand_changed(self, demand: Demand) -> None:
        self.watched, self._runs = demand
        if demand == NOBODY:
            self._fallbacks.clear()

    def note(self, run: str | None, query: ActionQuery, action: int, cause: str) -> None:
        """Note an answer that came without the policy."""
        decision = Decision(
            time.time(), run or DEFAULT_RUN, query.junction_id, query.obs, action, fallback=cause
        )
        self._fallbacks.append(decision)

    def take(self) -> tuple[list[Decision], dict[str, int]]:
        """Return the fallbacks of the runs that are asked for, and how many each run had."""
        noted = list(self._fallbacks)
        self._fallbacks.clear()
        wanted = [decision for decision in noted if decision.run in self._runs]
        return wanted, dict(Counter(decision.run for decision in noted))
