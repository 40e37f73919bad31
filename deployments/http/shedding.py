"""Load shedding: a limit of concurrent requests that adapts to how long they wait for their turn.

No fixed limit is right: the cost of a request differs by machine, by route and by what else runs.
So the limit follows the delay from a request's arrival to its turn in the event loop, as TCP adapts
its window to congestion (additive increase, multiplicative decrease; D.-M. Chiu and R. Jain,
Computer Networks and ISDN Systems 17, 1989). Only overload makes that delay grow: a request that
waits for a hidden state or another service does not occupy the event loop.
"""

from __future__ import annotations

TARGET_S = 0.08
PERIOD_S = 0.1
MAX_AT_WORK = 1000
MIN_LIMIT = 256
"""The lowest limit. Where other processes take the processor, refusals do not help, and this many
requests take a fraction of the target."""

_SHRINK = 0.5  # at most, in a period
_GROW = 1.1


class AdaptiveLimit:
    """A limit of concurrent requests.

    Args:
        most: the highest limit.

    Attributes:
        now: the current limit.
    """

    def __init__(self, most: float) -> None:
        self.now = most
        self._most = most
        self._longest_s = 0.0
        self._peak = 0
        self._ends_at = 0.0

    def note(self, waited_s: float, at_work: int, clock_s: float) -> None:
        """Note a request whose turn has come.

        Args:
            waited_s: from its arrival to its turn.
            at_work: other requests at work.
            clock_s: monotonic.
        """
        if waited_s > self._longest_s:
            self._longest_s = waited_s
        if at_work > self._peak:
            self._peak = at_work
        if clock_s >= self._ends_at:
            self._adapt()
            self._ends_at = clock_s + PERIOD_S
            self._longest_s, self._peak = 0.0, 0

    def _adapt(self) -> None:
        if self._longest_s > TARGET_S:
            share = max(_SHRINK, TARGET_S / self._longest_s)
            self.now = min(self._most, max(MIN_LIMIT, min(self.now, self._peak) * share))
        else:
            self.now = min(self._most, self.now * _GROW + 1)
