"""Checks a history from outside: whether one serial order of steps explains what clients saw.

Each step, and each reset, takes effect at one moment between its sending and its end, if at all;
one whose outcome is unknown may take effect later, for some time. Attempts with one idempotency key
are one step or one reset. The step number of an answer counts the steps since zeros. So of two
answers the later one has the higher number, and no number is higher than the requests that may have
been stepped by then.

With a reference policy, the checker also replays every state: an answer must follow from a state
that the requests before it may have left, also where a request of unknown outcome made a step.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import accumulate, chain
from typing import Any, TypeVar

from load_tests.chaos.history import History, Outcome, Prediction, Reset

TOLERANCE = 2e-4  # float32 against float64, through hundreds of steps

Reference = Callable[[str, Sequence[float], Any], tuple[int, float, Any]]
"""A policy: from junction, observation and hidden state, or None for zeros, to action, confidence
and the next hidden state."""

Request = TypeVar("Request", Prediction, Reset)


class Harm(Enum):
    LOST = "lost"  # another answer does not continue from this one
    DOUBLED = "doubled"  # more steps than requests, or a request that was stepped twice
    REVIVED = "revived"  # more steps than requests since a reset
    WRONG = "wrong"  # the action or the confidence follows from no state that may have been there


@dataclass(frozen=True)
class Finding:
    """One answer that was harmed, or shows the harm.

    Attributes:
        against: the answer or the reset that it contradicts; None for the beginning.
        steps: so many steps more than were known before, of one state.
    """

    harm: Harm
    answer: Prediction
    against: Prediction | Reset | None = None
    steps: int = 1

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


def check(history: History, reference: Reference | None = None) -> Verdict:
    """Check each hidden state separately.

    Raises:
        ValueError: no prediction was answered, so the history proves nothing.
    """
    if not history.count(Outcome.ANSWERED):
        raise ValueError("The history has no answered prediction, so it proves nothing.")
    resets = defaultdict(list)
    for reset in history.resets:
        if reset.outcome is not Outcome.REFUSED:
            resets[reset.run].append(reset)
    findings: list[Finding] = []
    for key, asked in history.by_key():
        findings += _made_anew(asked)
        findings += _Lineage(once_each(asked), once_each(resets[key.run])).findings()
        if reference:
            findings += _wrong(asked, reference)
    return Verdict(tuple(findings))


def once_each(attempts: Iterable[Request]) -> list[Request]:
    """Return each request once: attempts with one key have one effect, before the first answer."""
    by_request: dict[str | None, list[Request]] = defaultdict(list)
    for each in attempts:
        by_request[each.request].append(each)
    requests = by_request.pop(None, [])
    for same in by_request.values():
        answered = [each for each in same if each.outcome is Outcome.ANSWERED]
        unknown = [each for each in same if each.outcome is Outcome.UNKNOWN]
        if answered:
            one = min(answered, key=lambda each: each.done)
        else:
            one = max(unknown or same, key=lambda each: each.done)
        requests.append(replace(one, sent=min(each.sent for each in same)))
    return requests


def _made_anew(asked: Iterable[Prediction]) -> Iterator[Finding]:
    """Find answers to a request that differ from its first answer."""
    first: dict[str, Prediction] = {}
    for each in sorted(asked, key=lambda each: each.done):
        if each.request is not None and each.outcome is Outcome.ANSWERED:
            known = first.setdefault(each.request, each)
            if (each.step, each.body) != (known.step, known.body):
                yield Finding(Harm.DOUBLED, each, known)


def _wrong(asked: Sequence[Prediction], reference: Reference) -> Iterator[Finding]:
    """Find the answers of one state that follow from no state that may have been there.

    After a step without an answer, the states that may be there are those that any request of
    unknown outcome leaves.
    """
    answers: dict[int, list[Prediction]] = defaultdict(list)
    for each in asked:
        if each.outcome is Outcome.ANSWERED:
            answers[each.step].append(each)
    unknown = {each.observation for each in asked if each.outcome is Outcome.UNKNOWN}
    junction, possible = asked[0].key.junction, list[Any]([None])
    for step in range(1, max(answers, default=0) + 1):
        given = answers.get(step, [])
        after, right = list[Any](), list[Prediction]()
        for observation in {each.observation for each in given} or unknown:
            for state in possible:
                action, confidence, new = reference(junction, observation, state)
                follow = [
                    each
                    for each in given
                    if each.observation == observation and _agrees(each, action, confidence)
                ]
                right += follow
                if follow or not given:
                    after.append(new)
        yield from (Finding(Harm.WRONG, each) for each in given if each not in right)
        possible = after


def _agrees(answer: Prediction, action: int, confidence: float) -> bool:
    is_close = abs(answer.confidence - confidence) < TOLERANCE
    return is_close and (answer.action == action or abs(confidence - 0.5) < TOLERANCE)


class _Lineage:
    """The history of one hidden state: requests, each once."""

    def __init__(self, asked: Sequence[Prediction], resets: Sequence[Reset]) -> None:
        answers = (each for each in asked if each.outcome is Outcome.ANSWERED)
        self._answers = sorted(answers, key=lambda each: each.sent)
        self._resets = resets
        steps = [each for each in asked if each.outcome is not Outcome.REFUSED]
        self._sent = sorted(each.sent for each in steps)
        self._over = sorted(each.over for each in steps)
        by_end = sorted(resets, key=lambda each: each.over)
        self._cleared_over = [each.over for each in by_end]
        ahead = accumulate((each.sent for each in reversed(by_end)), min, initial=float("inf"))
        self._cleared = list(ahead)[::-1]

    def findings(self) -> Iterator[Finding]:
        yield from self._lost()
        yield from self._surplus()

    def _lost(self) -> Iterator[Finding]:
        """Find answers that another one does not continue from, unless a reset explains both."""
        sent = [each.sent for each in self._answers]
        lowest = list(accumulate((each.step for each in reversed(self._answers)), min))[::-1]
        of_step: dict[int, list[Prediction]] = defaultdict(list)
        for answer in sorted(self._answers, key=_when_done):
            of_step[answer.step].append(answer)
        for answer in self._answers:
            horizon = self._horizon(answer)
            first, after = bisect_left(sent, answer.done), bisect_right(sent, horizon)
            # a long history has few answers that anything later falls behind
            falls = first < after and lowest[first] <= answer.step
            later = self._answers[first:after] if falls else ()
            fallen = (each for each in later if each.step <= answer.step)
            same = of_step[answer.step]
            begin = bisect_right(same, _when_done(answer), key=_when_done)
            end = bisect_right(same, (horizon, horizon), key=_when_done)
            twins = (each for each in same[begin:end] if answer.done <= self._horizon(each))
            for other in chain(fallen, twins):
                if other.done <= horizon:
                    yield Finding(Harm.LOST, answer, other)
                    break

    def _horizon(self, answer: Prediction) -> float:
        """Return until when no reset can have cleared the step of the answer."""
        return self._cleared[bisect_right(self._cleared_over, answer.sent)]

    def _surplus(self) -> Iterator[Finding]:
        """Find answers whose number is higher than the requests allow.

        Between a known number and an answer, at most those requests made a step that were sent
        before the answer came and were not over before the known request was sent. So the known
        number that is lowest, less the requests that were over by then, allows the fewest steps.
        """
        known: list[Prediction | Reset] = [
            each for each in self._resets if each.outcome is Outcome.ANSWERED
        ]
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


def _when_done(answer: Prediction) -> tuple[float, float]:
    return answer.done, answer.sent


@dataclass(frozen=True, order=True)
class _Known:
    """A step number less the requests that were over by then, and the evidence for it."""

    floor: int
    what: Prediction | Reset | None = field(default=None, compare=False)
