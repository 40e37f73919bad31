"""Times without the policy in a closed loop, by simulated and by wall clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Outage:
    """Successive decisions in which some junction lacked the policy.

    Attributes:
        begin_s, end_s: simulated seconds of the day.
        began, ended: seconds since the Unix epoch; ``ended`` is when the policy was back, or the
            last decision without it.
        decisions: of single junctions without the policy.
        reason: of the latest one.
    """

    begin_s: int
    end_s: int
    began: float
    ended: float
    decisions: int
    reason: str


class OutageLog:
    """Records each decision.

    Args:
        begin_s: simulated second of the day of the first decision.
        decision_s: simulated seconds from one decision to the next.
        clock: seconds since the Unix epoch.
    """

    def __init__(
        self, begin_s: int, decision_s: int, clock: Callable[[], float] = time.time
    ) -> None:
        self.outages: list[Outage] = []
        self._clock = clock
        self._time_s = begin_s
        self._decision_s = decision_s
        self._open: Outage | None = None

    @property
    def decisions(self) -> int:
        """All decisions of single junctions without the policy."""
        return sum(outage.decisions for outage in self.outages)

    def decided(self, without_policy: int, reason: str) -> None:
        """Record one decision of all junctions, and how many of them lacked the policy."""
        now = self._clock()
        if self._open is None and without_policy:
            self._open = Outage(self._time_s, self._time_s, now, now, 0, reason)
            self.outages.append(self._open)
        self._time_s += self._decision_s
        if self._open is not None:
            self._open.ended = now
            if without_policy:
                self._open.end_s = self._time_s
                self._open.decisions += without_policy
                self._open.reason = reason
            else:
                self._open = None
