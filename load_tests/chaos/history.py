"""What the clients of hidden states saw: every request with its times, every reset."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise

from deployments.stateful.protocol import Key

LINGER_S = 10.0
"""Time after which a request that nobody waits for any more changes nothing: a paused process that
goes on may still serve what was sent to it, and a request waits for its state for some seconds."""


class Outcome(Enum):
    ANSWERED = "answered"
    REFUSED = "refused"  # the state is as it was
    UNKNOWN = "unknown"  # the step may have been made, may still be made, or never


@dataclass(frozen=True)
class Asked:
    """One prediction as its client saw it, times in seconds.

    Attributes:
        step: of the answer.
        request: the idempotency key, the same for every attempt at one step.
        body: of the answer to a request with such a key.
    """

    key: Key
    sent: float
    done: float
    outcome: Outcome = Outcome.ANSWERED
    step: int = 0
    request: str | None = None
    body: bytes = b""

    @property
    def over(self) -> float:
        """When it can no longer take effect."""
        return self.done + LINGER_S if self.outcome is Outcome.UNKNOWN else self.done


@dataclass(frozen=True)
class Reset:
    """One reset of a run; without ``confirmed``, it may have happened or not."""

    run: str
    sent: float
    done: float
    confirmed: bool = True

    @property
    def over(self) -> float:
        """When it can no longer take effect."""
        return self.done if self.confirmed else self.done + LINGER_S


@dataclass
class History:
    """All that the clients of one trial did, in no order, by one clock."""

    asked: list[Asked] = field(default_factory=list)
    resets: list[Reset] = field(default_factory=list)

    def count(self, outcome: Outcome) -> int:
        return sum(each.outcome is outcome for each in self.asked)

    def away_s(self) -> float:
        """Return the longest time in which nobody got an answer."""
        times = sorted(each.done for each in self.asked if each.outcome is Outcome.ANSWERED)
        return max((b - a for a, b in pairwise(times)), default=0.0)
