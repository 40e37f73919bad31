"""Checks a history from outside: whether one serial order of steps explains what clients saw.

Each request, and each reset, takes effect at one moment between its sending and its end, if at all;
one whose outcome is unknown may take effect later, for some time. The step number of an answer
counts the steps since zeros. So of two answers the later one has the higher number, and no number
is higher than the requests that may have been stepped by then. Whatever any order of the effects
explains is excused.

With a reference policy, the checker also replays every state: an answer must follow from a state
that the requests before it may have left, also where a request of unknown outcome made a step.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import chain
from typing import Any

from load_tests.chaos.history import History, Outcome, Prediction, Reset

TOLERANCE = 2e-4  # float32 against float64, through hundreds of steps

Reference = Callable[[str, Sequence[float], Any], tuple[int, float, Any]]
"""A policy: from junction, observation and hidden state, or None for zeros, to action, confidence
and the next hidden state."""


class Harm(Enum):
    LOST = "lost"  # an answer sent for later does not continue from this one
    DOUBLED = "doubled"  # more steps than requests, or one step answered twice
    REVIVED = "revived"  # more steps than requests since a reset
    WRONG = "wrong"  # the action or the confidence follows from no state that may have been there


@dataclass(frozen=True)
class Finding:
    """One answer that was harmed, or shows the harm.

    Attributes:
        against: the answer or the reset that it contradicts; None for the beginning.
        steps: so many steps more than were known before, of one state.
        seconds: from the answer to the nearest fault, before or after it; infinite without one.
    """

    harm: Harm
    answer: Prediction
    against: Prediction | Reset | None = None
    steps: int = 1
    seconds: float = float("inf")

    def __str__(self) -> str:
        key, step = self.answer.key, self.answer.step
        match self.against:
            case Prediction():
                against = f"against step {self.against.step}{self._times(self.against)}"
            case Reset():
                against = f"after a reset{self._times(self.against)}"
            case None:
                against = "since the beginning"
        answer = f"step {step} of {key.run} {key.junction}{self._times(self.answer)}"
        return f"{self.harm.value}: {answer}, {against}"

    def _times(self, what: Prediction | Reset) -> str:
        sent, done = (1e3 * (each - self.answer.done) for each in (what.sent, what.done))
        return f" ({sent:+.0f} to {done:+.0f} ms)"


@dataclass(frozen=True)
class Verdict:
    findings: tuple[Finding, ...] = ()

    def steps(self, harm: Harm) -> int:
        return sum(each.steps for each in self.findings if each.harm is harm)

    @property
    def lost_s(self) -> float:
        """The greatest time between the answer to a lost step and the fault; 0 if none is lost."""
        lost = (each.seconds for each in self.findings if each.harm is Harm.LOST)
        return max(lost, default=0.0)


def check(
    history: History, faults: Sequence[float] = (), reference: Reference | None = None
) -> Verdict:
    """Check each hidden state separately.

    Args:
        faults: the moments at which something was killed, stopped or continued.

    Raises:
        ValueError: no prediction was answered, so the history proves nothing.
    """
    if not history.count(Outcome.ANSWERED):
        raise ValueError("The history has no answered prediction, so it proves nothing.")
    resets = defaultdict(list)
    for reset in history.resets:
        resets[reset.run].append(reset)
    findings: list[Finding] = []
    for key, asked in history.by_key():
        findings += _Lineage(asked, resets[key.run], faults).findings()
        if reference:
            findings += _wrong(asked, reference)
    return Verdict(tuple(findings))


def _wrong(asked: Sequence[Prediction], reference: Reference) -> Iterator[Finding]:
    """Find the answers of one state that follow from no state that may have been there.

    After each step, the states that may be there are those that its answers leave: one, except for
    steps that were lost and made again. For a step without an answer, they are those that any
    request of unknown outcome leaves.
    """
    steps: dict[int, dict[tuple[float, ...], list[Prediction]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for each in asked:
        if each.outcome is Outcome.ANSWERED:
            steps[each.step][each.observation].append(each)
    unknown = {each.observation for each in asked if each.outcome is Outcome.UNKNOWN}
    junction = asked[0].key.junction

    def apply(observations: Iterable[tuple[float, ...]], states: Sequence[Any]) -> list[Any]:
        return [reference(junction, each, state)[2] for state in states for each in observations]

    before_last: list[Any] = []
    possible: list[Any] = [None]
    for step in range(1, max(steps, default=0) + 1):
        after = [] if step in steps else apply(unknown, possible)
        for answers in steps[step].values() if step in steps else ():
            follows, wrong = _follow(answers, possible, reference)
            if wrong:  # the step before may be a lost one without an answer
                unseen = apply(unknown, before_last)
                more, wrong = _follow(wrong, unseen, reference)
                follows += more
            yield from (Finding(Harm.WRONG, each) for each in wrong)
            after += follows
        possible, before_last = after, possible


def _follow(
    answers: Iterable[Prediction], states: Iterable[Any], reference: Reference
) -> tuple[list[Any], list[Prediction]]:
    """Return the states after answers to one observation, and the answers that do not follow."""
    after, wrong = [], list(answers)
    for state in states:
        first = next(iter(answers))
        action, confidence, new = reference(first.key.junction, first.observation, state)
        following = [each for each in answers if _agrees(each, action, confidence)]
        if following:
            after.append(new)
            wrong = [each for each in wrong if each not in following]
    return after, wrong


def _agrees(answer: Prediction, action: int, confidence: float) -> bool:
    is_close = abs(answer.confidence - confidence) < TOLERANCE
    return is_close and (answer.action == action or abs(confidence - 0.5) < TOLERANCE)


def steps_of(asked: Iterable[Prediction]) -> list[Prediction]:
    """Return one prediction for each step that was made, or may have been, for one hidden state.

    Attempts with one idempotency key are one step, made before the first answer to any of them.
    Answers that differ are separate steps: the later one was made anew.
    """
    attempts: dict[str, list[Prediction]] = defaultdict(list)
    steps = []
    for each in asked:
        if each.request is None:
            steps.append(each)
        else:
            attempts[each.request].append(each)
    return [*steps, *chain.from_iterable(map(_steps_of_request, attempts.values()))]


def _steps_of_request(attempts: list[Prediction]) -> Iterator[Prediction]:
    first = min(attempts, key=lambda each: each.sent)
    answers: dict[tuple[int, bytes], list[Prediction]] = defaultdict(list)
    for each in sorted(attempts, key=lambda each: each.done):
        if each.outcome is Outcome.ANSWERED:
            answers[each.step, each.body].append(each)
    for number, same in enumerate(answers.values()):
        since = min(each.sent for each in same) if number else first.sent
        yield replace(same[0], sent=since)
    if not answers:
        unknown = [each for each in attempts if each.outcome is Outcome.UNKNOWN]
        last = max(unknown or attempts, key=lambda each: each.done)
        yield replace(last, sent=first.sent)


class _Lineage:
    """The history of one hidden state."""

    def __init__(
        self, attempts: Sequence[Prediction], resets: Sequence[Reset], faults: Sequence[float]
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
        """Find answers that a later one does not continue from, and pairs with the same number."""
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
                if between:  # one of the two is lost, and it is not known which
                    yield self._lost(answer, twin, [answer, twin])
                else:
                    yield Finding(Harm.DOUBLED, answer, twin)

    def _twin(self, answer: Prediction, earlier_sent: Sequence[Prediction]) -> Prediction | None:
        """Return a later answer with the same number, unless a reset explains both."""
        for other in earlier_sent:
            if (
                other.step == answer.step
                and (other.done, other.sent) > (answer.done, answer.sent)
                and other.done <= self._horizon(answer)
                and answer.done <= self._horizon(other)
            ):
                return other
        return None

    def _lost(
        self, answer: Prediction, witness: Prediction, suspects: Sequence[Prediction]
    ) -> Finding:
        times = [abs(each.done - fault) for fault in self._faults for each in suspects]
        return Finding(Harm.LOST, answer, witness, seconds=min(times, default=float("inf")))

    def _horizon(self, answer: Prediction) -> float:
        """Return until when no reset can have cleared the step of the answer."""
        ahead = (each.sent for each in self._resets if each.over > answer.sent)
        return min(ahead, default=float("inf"))

    def _made_anew(self, forgotten: Container[Prediction]) -> Iterator[Finding]:
        """Find requests that were stepped again although their first step was not lost."""
        stayed: dict[str, Prediction] = {}
        for answer in self._answers:
            if answer.request in stayed:
                yield Finding(Harm.DOUBLED, answer, stayed[answer.request])
            elif answer.request is not None and answer not in forgotten:
                stayed[answer.request] = answer

    def _surplus(self) -> Iterator[Finding]:
        """Find answers whose number is higher than the requests allow.

        Between a known number and an answer, at most those requests made a step that were sent
        before the answer came and were not over before the known request was sent. So the known
        number that is lowest, less the requests that were over by then, allows the fewest steps.
        """
        known: list[Prediction | Reset] = [each for each in self._resets if each.confirmed]
        known += self._answers
        known.sort(key=lambda each: each.done, reverse=True)
        lowest = _Known(0)
        cleared: _Known | None = None
        reported: dict[Prediction | Reset | None, int] = defaultdict(int)
        for answer in self._answers:
            while known and known[-1].done <= answer.sent:
                match known.pop():
                    case Reset() as reset:
                        floor = _Known(-self._over_by(reset.sent), reset)
                        cleared = min(cleared or floor, floor)
                    case Prediction() as earlier:
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
    """A step number less the requests that were over by then, and the evidence for it."""

    floor: int
    what: Prediction | Reset | None = field(default=None, compare=False)
