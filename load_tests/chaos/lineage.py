"""Judges a history: which answered steps were lost, which were made twice, which states came back
after a reset.

Each request, and each reset, takes effect at one moment between its sending and its end, if at all;
one whose outcome is unknown has some time longer. The step number of an answer counts the steps
since zeros. So of two answers the later one has the higher number, and no number is higher than the
requests that may have been stepped by then. Whatever any order of the effects explains is excused.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain

from load_tests.chaos.attempts import steps_of
from load_tests.chaos.history import Asked, History, Outcome, Reset


class Harm(Enum):
    LOST = "lost"  # an answer sent for later does not continue from this one
    DOUBLED = "doubled"  # more steps than requests, or one step answered twice
    REVIVED = "revived"  # more steps than requests since a reset


@dataclass(frozen=True)
class Finding:
    """One answer that was harmed, or tells of the harm.

    Attributes:
        against: the answer or the reset that it contradicts, None for the beginning.
        steps: of one lineage, so many steps more than were known of before.
        seconds: from the answer to the nearest fault, before or after it; infinite without one.
    """

    harm: Harm
    answer: Asked
    against: Asked | Reset | None = None
    steps: int = 1
    seconds: float = float("inf")

    def __str__(self) -> str:
        key, step = self.answer.key, self.answer.step
        match self.against:
            case Asked():
                against = f"against step {self.against.step}{self._times(self.against)}"
            case Reset():
                against = f"after a reset{self._times(self.against)}"
            case None:
                against = "since the beginning"
        answer = f"step {step} of {key.run} {key.entity}{self._times(self.answer)}"
        return f"{self.harm.value}: {answer}, {against}"

    def _times(self, what: Asked | Reset) -> str:
        sent, done = (1e3 * (each - self.answer.done) for each in (what.sent, what.done))
        return f" ({sent:+.0f} to {done:+.0f} ms)"


@dataclass(frozen=True)
class Verdict:
    findings: tuple[Finding, ...] = ()

    def steps(self, harm: Harm) -> int:
        return sum(each.steps for each in self.findings if each.harm is harm)

    @property
    def lost_s(self) -> float:
        """Greatest time between the answer to a lost step and the fault; 0 when none is lost."""
        lost = (each.seconds for each in self.findings if each.harm is Harm.LOST)
        return max(lost, default=0.0)


def judge(history: History, faults: Sequence[float] = ()) -> Verdict:
    """Judge each hidden state by itself.

    Args:
        faults: the moments at which something was killed, stopped or continued.
    """
    asked = defaultdict(list)
    for each in history.asked:
        asked[each.key].append(each)
    resets = defaultdict(list)
    for reset in history.resets:
        resets[reset.run].append(reset)
    lineages = (_Lineage(asked[key], resets[key.run], faults) for key in asked)
    return Verdict(tuple(chain.from_iterable(each.findings() for each in lineages)))


class _Lineage:
    """The history of one hidden state."""

    def __init__(
        self, attempts: Sequence[Asked], resets: Sequence[Reset], faults: Sequence[float]
    ) -> None:
        asked = steps_of(attempts)
        answers = (each for each in asked if each.outcome is Outcome.ANSWERED)
        self._answers = sorted(answers, key=lambda each: each.sent)
        self._resets = resets
        self._faults = faults
        steps = [each for each in asked if each.outcome is not Outcome.REFUSED]
        self._sent = sorted(each.sent for each in steps)
        self._over = sorted(each.over for each in steps)

    def findings(self) -> Iterator[Finding]:
        forgotten = list(self._forgotten())
        yield from forgotten
        yield from self._made_anew({each.answer for each in forgotten})
        yield from self._surplus()

    def _forgotten(self) -> Iterator[Finding]:
        """Find answers that a later one does not continue from, and those with the same number."""
        sent = [each.sent for each in self._answers]
        for answer in self._answers:
            horizon = self._horizon(answer)
            overlapping = bisect_left(sent, answer.done)
            until = bisect_right(sent, horizon)
            later = (each for each in self._answers[overlapping:until] if each.done <= horizon)
            if witness := next((each for each in later if each.step <= answer.step), None):
                yield self._lost(answer, witness, [answer])
            elif twin := self._twin(answer, self._answers[:overlapping]):
                between = any(answer.sent < fault < twin.done for fault in self._faults)
                if between:  # one of the two is lost, and nobody knows which
                    yield self._lost(answer, twin, [answer, twin])
                else:
                    yield Finding(Harm.DOUBLED, answer, twin)

    def _twin(self, answer: Asked, earlier_sent: Sequence[Asked]) -> Asked | None:
        """Return an answer with the same number that came later, when no reset explains both."""
        for other in earlier_sent:
            if (
                other.step == answer.step
                and (other.done, other.sent) > (answer.done, answer.sent)
                and other.done <= self._horizon(answer)
                and answer.done <= self._horizon(other)
            ):
                return other
        return None

    def _lost(self, answer: Asked, witness: Asked, suspects: Sequence[Asked]) -> Finding:
        times = [abs(each.done - fault) for fault in self._faults for each in suspects]
        return Finding(Harm.LOST, answer, witness, seconds=min(times, default=float("inf")))

    def _horizon(self, answer: Asked) -> float:
        """Return until when no reset can have cleared the answer's step."""
        ahead = (each.sent for each in self._resets if each.over > answer.sent)
        return min(ahead, default=float("inf"))

    def _made_anew(self, forgotten: Container[Asked]) -> Iterator[Finding]:
        """Find requests that were stepped again although their first step had stayed."""
        stayed: dict[str, Asked] = {}
        for answer in self._answers:
            if answer.request in stayed:
                yield Finding(Harm.DOUBLED, answer, stayed[answer.request])
            elif answer.request is not None and answer not in forgotten:
                stayed[answer.request] = answer

    def _surplus(self) -> Iterator[Finding]:
        """Find answers whose number is higher than the requests allow.

        Between something known and an answer lie at most the requests that were sent before the
        answer came, less those that were over before the known was sent. So what is known with the
        lowest number, less those that were over, allows least.
        """
        known: list[Asked | Reset] = [each for each in self._resets if each.confirmed]
        known += self._answers
        known.sort(key=lambda each: each.done, reverse=True)
        lowest = _Known(0)
        cleared: _Known | None = None
        reported: dict[Asked | Reset | None, int] = defaultdict(int)
        for answer in self._answers:
            while known and known[-1].done <= answer.sent:
                match known.pop():
                    case Reset() as reset:
                        floor = _Known(-self._over_by(reset.sent), reset)
                        cleared = min(cleared or floor, floor)
                    case Asked() as earlier:
                        # its own request is not over when it is sent, and makes no further step
                        floor = _Known(earlier.step - 1 - self._over_by(earlier.sent), earlier)
                        lowest = min(lowest, floor)
            made = answer.step - bisect_left(self._sent, answer.done)
            epoch = cleared.what if cleared else None
            for harm, base in ((Harm.REVIVED, cleared), (Harm.DOUBLED, lowest)):
                if base is not None and (surplus := made - base.floor) > reported[epoch]:
                    yield Finding(harm, answer, base.what, surplus - reported[epoch])
                    reported[epoch] = surplus

    def _over_by(self, moment: float) -> int:
        return bisect_right(self._over, moment)


@dataclass(frozen=True, order=True)
class _Known:
    """A step number less the requests that were over by then, and what it is known from."""

    floor: int
    what: Asked | Reset | None = field(default=None, compare=False)
