"""A model whose states tell which steps they come from, and the laws of a history.

Every step makes a new state with a number of its own and notes the state it was made from. So the
whole ancestry of each answer is known, and "exactly once, in order, from zeros after a reset" can
be read off it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

import numpy as np

from deployments.stateful.protocol import Key, Output
from deployments.stateful.replica.held_states import Array

ZEROS = 0


class Made(NamedTuple):
    request: int
    parent: int


class LineageModel:
    """Steps numbers of requests; the first value of a state is its number."""

    def __init__(self) -> None:
        self.states: dict[int, Made] = {}
        self.stepped: set[int] = set()  # numbers of requests

    def initial_state(self, key: Key) -> Array:
        return np.zeros(128, np.float32)

    def step(self, inputs: Sequence[int], states: Array) -> tuple[list[Output], Array]:
        new = np.zeros_like(states)
        for row, request in enumerate(inputs):
            state = len(self.states) + 1
            self.states[state] = Made(request, int(states[row, 0]))
            self.stepped.add(request)
            new[row, 0] = state
        return [()] * len(inputs), new

    def ancestors(self, state: int) -> Iterator[int]:
        """Return the numbers of the requests whose steps led to a state, the state's own first."""
        while state != ZEROS:
            request, state = self.states[state]
            yield request


class Outcome(Enum):
    PENDING = auto()
    ANSWERED = auto()
    FAILED = auto()
    CANCELLED = auto()  # before its step
    UNKNOWN = auto()  # the replica died, or the client left after the step


@dataclass
class Asked:
    """One prediction as its client saw it."""

    number: int
    key: Key
    replica: str
    sent: float
    outcome: Outcome = Outcome.PENDING
    answered: float | None = None
    step: int = 0


@dataclass
class ResetCall:
    run: str
    sent: float
    done: float | None = None


@dataclass
class History:
    model: LineageModel = field(default_factory=LineageModel)
    asked: list[Asked] = field(default_factory=list)
    resets: list[ResetCall] = field(default_factory=list)

    def check(self, may_be_lost: Callable[[Asked], bool] = lambda asked: False) -> None:
        """Assert the laws; ``may_be_lost`` excuses answers whose steps a fault may have lost."""
        made = Counter(each.request for each in self.model.states.values())
        state_of = {each.request: state for state, each in self.model.states.items()}
        assert all(n == 1 for n in made.values()), "a request was stepped twice"
        asked = {each.number: each for each in self.asked}
        lineages: dict[Key, list[tuple[Asked, list[int]]]] = {}
        for each in self.asked:
            if each.answered is not None:
                assert each.number in state_of, "answered without a step"
                line = list(self.model.ancestors(state_of[each.number]))
                assert len(line) == each.step, f"step {each.step} is the {len(line)}th since zeros"
                assert all(asked[number].key == each.key for number in line), "states were mixed up"
                lineages.setdefault(each.key, []).append((each, line))
        for key, answers in lineages.items():
            self._check_one(key, answers, asked, may_be_lost)

    def _check_one(
        self,
        key: Key,
        answers: list[tuple[Asked, list[int]]],
        asked: dict[int, Asked],
        may_be_lost: Callable[[Asked], bool],
    ) -> None:
        resets = [each for each in self.resets if each.run == key.run]
        for later, line in answers:
            ancestry = set(line)
            for number in line:
                outcome = asked[number].outcome
                assert outcome not in (Outcome.FAILED, Outcome.CANCELLED), (
                    f"{later} comes after {asked[number]}"
                )
            finished = [r.sent for r in resets if r.done is not None and r.done <= later.sent]
            fresh_since = max(finished, default=-1.0)
            for number in line:
                done = asked[number].answered
                assert done is None or done >= fresh_since, (
                    f"{later} continues from {asked[number]}, before the reset at {fresh_since}"
                )
            # Whatever was answered before, and no reset can have cleared, must be part of it.
            for earlier, _ in answers:
                assert earlier.answered is not None
                if earlier.answered >= later.sent or earlier.number in ancestry:
                    continue
                cleared = any(
                    r.sent <= (later.answered or later.sent)
                    and (r.done is None or r.done >= earlier.sent)
                    for r in resets
                )
                assert cleared or may_be_lost(earlier), f"{later} does not continue from {earlier}"
        self._check_no_forks(key, answers, may_be_lost)

    def _check_no_forks(
        self,
        key: Key,
        answers: list[tuple[Asked, list[int]]],
        may_be_lost: Callable[[Asked], bool],
    ) -> None:
        """Check that of two answered steps from one state, an excused fault has lost one."""
        children: dict[int, list[Asked]] = {}
        for each, line in answers:
            parent = line[1] if len(line) > 1 else ZEROS
            if parent != ZEROS:
                children.setdefault(parent, []).append(each)
        for siblings in children.values():
            kept = [each for each in siblings if not may_be_lost(each)]
            assert len(kept) <= 1, f"{key} was forked: {siblings}"
