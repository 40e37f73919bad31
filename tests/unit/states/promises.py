"""What the engine promises, as a dictionary of states without any concurrency."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from deployments.stateful.errors import KeyReusedError, NotBegunError, TooManyStatesError
from deployments.stateful.row import Key
from tests.unit.states.tape import RefusedError, beginning

RECEIPTS = 64  # idempotency keys that a state remembers

Tape = tuple[int, ...]
Outcome = tuple[Tape, int] | type[Exception]
"""Tape and number of a step, or the error in place of one."""


class Step(NamedTuple):
    """A step that a client asks for."""

    key: Key
    number: int
    request_id: str | None = None
    continues: bool = False


class Policy(NamedTuple):
    """A variant of the model.

    Attributes:
        refused: it refuses the multiples of this number.
    """

    name: str
    refused: int = 0


@dataclass
class State:
    """The states of one key.

    Attributes:
        policy: name of the one that stepped last.
        tapes: number of steps and tape of each policy.
        aside: names of the policies that another one has followed.
        receipts: number, step and tape by idempotency key, the oldest first.
    """

    policy: str
    tapes: dict[str, tuple[int, Tape]] = field(default_factory=dict)
    aside: set[str] = field(default_factory=set)
    receipts: dict[str, tuple[int, int, Tape]] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        return 1 + len(self.aside)


class Promises:
    """The states of an application.

    Attributes:
        operations: results of operations by kind, run and idempotency key.
    """

    def __init__(self) -> None:
        self.states: dict[Key, State] = {}
        self.operations: dict[tuple[str, str, str | None], Any] = {}

    # Steps

    def step(self, policy: Policy, step: Step) -> Outcome:
        """Make one step."""
        key, number, request_id, continues = step
        state = self.states.get(key) or State(policy.name)
        known = state.receipts.get(request_id or "")
        if known is not None:
            return (known[2], known[1]) if known[0] == number else KeyReusedError
        n_steps, tape = state.tapes.get(policy.name, (0, beginning(key)))
        if continues and not n_steps:
            return NotBegunError
        if policy.refused and number % policy.refused == 0:
            return RefusedError
        n_steps, tape = n_steps + 1, (*tape[1:], number)
        if state.policy != policy.name:
            state.aside.add(state.policy)
            state.policy = policy.name
        state.tapes[policy.name] = n_steps, tape
        if request_id is not None:
            state.receipts[request_id] = number, n_steps, tape
            if len(state.receipts) > RECEIPTS:
                del state.receipts[next(iter(state.receipts))]
        self.states[key] = state
        return tape, n_steps

    def turn(self, policy: Policy, steps: Sequence[Step], found: Sequence[Any]) -> list[Outcome]:
        """Make the steps of one state, and return the outcomes that they must have.

        Args:
            found: outcomes that were answered. A promise does not say which of several states has
                the last room, so that :class:`TooManyStatesError` is taken from them.
        """
        (key,) = {step.key for step in steps}
        before = deepcopy(self.states.get(key))
        outcomes = [self.step(policy, step) for step in steps]
        after = self.states.get(key)
        grows = after is not None and after.n_rows > (before.n_rows if before else 0)
        if grows and set(found) == {TooManyStatesError}:
            self._put(key, before)
            return [TooManyStatesError] * len(steps)
        return outcomes

    def would_step(self, policy: Policy, steps: Sequence[Step]) -> bool:
        """Return whether some of the steps of one state would change it."""
        (key,) = {step.key for step in steps}
        before = deepcopy(self.states.get(key))
        for step in steps:
            self.step(policy, step)
        is_other = self.states.get(key) != before
        self._put(key, before)
        return is_other

    def _put(self, key: Key, state: State | None) -> None:
        self.states.pop(key, None)
        if state is not None:
            self.states[key] = state

    # Runs

    def run(self, run: str) -> dict[Key, State]:
        return {key: state for key, state in self.states.items() if key.run == run}

    def n_rows(self, runs: set[str]) -> int:
        return sum(state.n_rows for key, state in self.states.items() if key.run in runs)

    def read(self, run: str, policy: str) -> dict[str, tuple[int, Tape]]:
        """Return steps and tape of each entity of a run that a policy has stepped."""
        return {
            key.entity: state.tapes[policy]
            for key, state in self.run(run).items()
            if policy in state.tapes
        }

    def replace(self, run: str, states: dict[Key, State]) -> None:
        for key in self.run(run):
            del self.states[key]
        self.states.update(states)

    def write(self, run: str, tapes: dict[str, tuple[int, Tape]], policy: str) -> None:
        states = {Key(run, entity): State(policy, {policy: tape}) for entity, tape in tapes.items()}
        self.replace(run, states)

    def fork(self, run: str, fork: str) -> None:
        states = {}
        for (_, entity), state in deepcopy(self.run(run)).items():
            state.receipts.clear()
            states[Key(fork, entity)] = state
        self.replace(fork, states)
