"""What HTTP clients of hidden states saw: each prediction and each reset, with its times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

LINGER_S = 10.0
"""Time after which an abandoned request has no effect: a stopped process that continues may still
serve what was sent to it."""


class Key(NamedTuple):
    """The name of a hidden state."""

    run: str
    junction: str


class Outcome(Enum):
    ANSWERED = "answered"
    REFUSED = "refused"  # the state is as it was
    UNKNOWN = "unknown"  # the step may have been made, may still be made, or never


class Attempt:
    """What a client tried, and what it saw of it."""

    done: float
    outcome: Outcome

    @property
    def over(self) -> float:
        """When the request can no longer take effect."""
        return self.done + LINGER_S if self.outcome is Outcome.UNKNOWN else self.done


@dataclass(frozen=True)
class Prediction(Attempt):
    """One prediction as its client saw it; times in seconds of one clock.

    Attributes:
        step: the number of steps since zeros, from the answer.
        request: the idempotency key, the same for every attempt at one step.
        body: of the answer to a request with such a key.
        observation: what was sent.
        action, confidence: from the answer.
        error: why there is no answer.
    """

    key: Key
    sent: float
    done: float
    outcome: Outcome = Outcome.ANSWERED
    step: int = 0
    request: str | None = None
    body: bytes = b""
    observation: tuple[float, ...] = ()
    action: int = 0
    confidence: float = 0.0
    error: str = ""


@dataclass(frozen=True)
class Reset(Attempt):
    """One attempt at a reset of a run; ``request`` is the same for every attempt at one reset."""

    run: str
    sent: float
    done: float
    outcome: Outcome = Outcome.ANSWERED
    request: str | None = None


@dataclass
class History:
    """Everything that the clients did, in no order."""

    predictions: list[Prediction] = field(default_factory=list)
    resets: list[Reset] = field(default_factory=list)

    @property
    def answers(self) -> list[Prediction]:
        return [each for each in self.predictions if each.outcome is Outcome.ANSWERED]

    @property
    def failures(self) -> list[Prediction]:
        return [each for each in self.predictions if each.outcome is not Outcome.ANSWERED]

    def count(self, outcome: Outcome) -> int:
        return sum(each.outcome is outcome for each in self.predictions)

    def by_key(self) -> Iterator[tuple[Key, list[Prediction]]]:
        """Yield each key with its predictions, in the order of their sending."""
        by_key: dict[Key, list[Prediction]] = {}
        for each in sorted(self.predictions, key=lambda each: each.sent):
            by_key.setdefault(each.key, []).append(each)
        yield from by_key.items()

    def away_s(self, run: str) -> float:
        """Return the longest time without an answer for a run."""
        times = sorted(each.done for each in self.answers if each.key.run == run)
        return max((b - a for a, b in pairwise(times)), default=0.0)
