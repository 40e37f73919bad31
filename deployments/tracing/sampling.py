"""Which requests are traced."""

from __future__ import annotations

import random
from collections.abc import Callable

from deployments.trace_context import NOT_TRACED, Trace, sender_of

MOST_PER_S = 100
"""Traces that a process begins or takes part in: clients must not be able to ask for more work."""


class Sampler:
    """Follows the sender's decision, and makes it for requests that come without one.

    Args:
        share: of those requests, from 0 to 1.
        clock: monotonic, in seconds.
    """

    def __init__(
        self, share: float, clock: Callable[[], float], source: random.Random | None = None
    ) -> None:
        self._share = share
        self._clock = clock
        self._random = (source or random.Random()).random
        self._left = float(MOST_PER_S)
        self._filled_at = clock()

    def decide(self, traceparent: str | None) -> Trace | bool:
        """Return the trace to take part in, or whether to begin one."""
        if traceparent == NOT_TRACED:  # as the gateway tells for nearly all
            return False
        sender = sender_of(traceparent) if traceparent else None
        records = sender.records if sender else self._random() < self._share
        if not (records and self._take_place()):
            return False
        return sender.trace if sender else True

    def _take_place(self) -> bool:
        now = self._clock()
        self._left = min(MOST_PER_S, self._left + (now - self._filled_at) * MOST_PER_S)
        self._filled_at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
