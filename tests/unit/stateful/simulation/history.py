"""What happened in one schedule: steps, requests, commits, resets and faults, by true time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from math import inf
from typing import Any, NamedTuple

import numpy as np

from deployments.stateful.protocol import Key, Output, StateError
from deployments.stateful.replica.slab import Array

REFUSED_BY_CANARY = 5  # one of so many steps
INITIAL = 0
"""The number of every initial state."""


@dataclass(slots=True, eq=False)
class Step:
    """One step that a replica made, whether or not its response ever arrives.

    Attributes:
        number: of the new state; its first element carries it.
        request: number of the request.
        parent: number of the state that was stepped.
        root: number of the first state after the initial one.
        depth: number of steps since the initial state.
        received_at: when an authority received the state, or a later one made from it.
        committed_at: when the authority had committed it.
        only_in_store: whether no response has confirmed that yet.
        refused_at: when its replica learned that it is void.
        policy: that made it.
    """

    number: int
    request: int
    parent: int
    root: int
    depth: int
    replica: str
    at: float
    received_at: float | None = None
    committed_at: float | None = None
    only_in_store: bool = False
    refused_at: float | None = None
    policy: str = ""


class Outcome(Enum):
    PENDING = auto()
    RESPONDED = auto()
    REFUSED = auto()  # with an error that means: no step was made
    UNKNOWN = auto()  # with OutcomeUnknownError
    CANCELLED = auto()


@dataclass(slots=True, eq=False)
class Request:
    """One attempt at a step as its client sees it."""

    number: int
    key: Key
    replica: str
    sent: float
    request_id: str | None = None
    outcome: Outcome = Outcome.PENDING
    ended: float | None = None
    state: int = INITIAL
    step: int = 0
    error: str = ""

    @property
    def junction(self) -> Key:
        """The key without the namespace of the policy."""
        return Key(self.key.run, self.key.entity.partition("@")[0])


@dataclass(slots=True, eq=False)
class ResetCall:
    """A reset, or a write of a run, as its client sees it.

    Attributes:
        written: numbers of the states that the run began with, by key; none of a reset.
        executed: when an authority last finished it, repeated messages included.
    """

    run: str
    sent: float
    executed: float = -1.0
    done: float | None = None
    written: dict[Key, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Fault:
    """A fault of ``target``: a process, or a link (:func:`.network.link`)."""

    kind: str
    target: str
    begin: float
    end: float = inf

    @property
    def is_standstill(self) -> bool:
        """Whether none of the process' code runs."""
        return self.kind in ("stalled", "suspended", "paused")

    def overlaps(self, begin: float, end: float) -> bool:
        return self.begin <= end and self.end >= begin


@dataclass(slots=True, eq=False)
class Takeover:
    """The moment when a new term reads the store.

    Attributes:
        known: what replicas hold then. By key, (replica, number of the state).
    """

    shard: int
    shards: int
    at: float
    known: dict[Key, list[tuple[str, int]]]


@dataclass
class History:
    """Everything that the judge reads.

    Attributes:
        unsettled: numbers of the states that were claimed, and lost to another claim.
        snapshots: by key, the times of writes to the store, and the numbers of the states.
        sessions: by replica, when it opened them.
        cleared: by run, when a reset of it was written to the store.
        accepted: when an operator accepted a store that was rolled back.
        forgotten: when a term began from a store that was rolled back, and no replica that reached
            it knew of the lost writes.
        restarts: of everything, or takeovers by another cluster.
        leader: session of the latest term, once there is more than one cluster.
        defects: errors that no code handled.
        shards_of: by replica, the number of shards in its layout.
    """

    steps: list[Step] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    resets: list[ResetCall] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    takeovers: list[Takeover] = field(default_factory=list)
    unsettled: set[int] = field(default_factory=set)
    snapshots: dict[Key, list[tuple[float, int]]] = field(default_factory=dict)
    sessions: dict[str, list[float]] = field(default_factory=dict)
    restarts: list[float] = field(default_factory=list)
    cleared: dict[str, list[float]] = field(default_factory=dict)
    accepted: list[float] = field(default_factory=list)
    forgotten: list[float] = field(default_factory=list)
    leader: str = ""
    defects: list[str] = field(default_factory=list)
    shards_of: dict[str, int] = field(default_factory=dict)

    def step(self, number: int) -> Step:
        return self.steps[number - 1]

    def line(self, number: int) -> Iterator[Step]:
        """Yield the step that made a state, and those before it, the newest first."""
        while number != INITIAL:
            step = self.steps[number - 1]
            yield step
            number = step.parent

    def descends(self, number: int, ancestor: int) -> bool:
        depth = self.step(ancestor).depth
        for step in self.line(number):
            if step.depth <= depth:
                return step.number == ancestor
        return False

    def receive(self, number: int, at: float) -> None:
        """Note that an authority has received a state, and with it the steps that led to it."""
        for step in self.line(number):
            if step.received_at is not None:
                return
            step.received_at = at

    def commit(self, number: int, at: float) -> None:
        """Note that an authority has committed a state, and with it the steps that led to it."""
        self.receive(number, at)
        for step in self.line(number):
            if step.committed_at is not None and not step.only_in_store:
                return
            step.committed_at = step.committed_at or at
            step.only_in_store = False

    def store(self, number: int, at: float) -> None:
        """Note that a state is in the store, whatever the response to its commit is."""
        if number in self.unsettled:
            return
        self.receive(number, at)
        for step in self.line(number):
            if step.committed_at is not None:
                return
            step.committed_at, step.only_in_store = at, True

    def lose_claim(self, number: int) -> None:
        """Note that a claim was settled for another state; this one may be in the store already."""
        self.unsettled.add(number)
        for step in self.line(number):
            if step.only_in_store:
                step.committed_at, step.only_in_store = None, False

    def snapshot_at(self, key: Key, at: float) -> int:
        """Return the number of the state whose snapshot was in the store at a time."""
        found = INITIAL
        for when, number in self.snapshots.get(key, ()):
            if when > at:
                break
            found = number
        return found

    def was_brought_back(self, key: Key, root: Step, since: float, until: float) -> bool:
        """Return whether a rollback of the store undid, in that time, that it had erased a state.

        Args:
            root: first step of the state.
        """
        return any(
            self.step(number).root == root.number
            for fault in self.faults
            if fault.kind == "rolled back" and since < fault.begin < until
            if (number := self.snapshot_at(key, fault.begin)) != INITIAL
        )


class StateForm(NamedTuple):
    """The shape and data type of states. The first element is the number of the state."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def n_bytes(self) -> int:
        return self.initial().nbytes

    def initial(self) -> Array:
        return np.zeros(self.shape, self.dtype)

    def number(self, state: Any) -> int:
        """Return the number of a state from its array or bytes."""
        return int(np.frombuffer(bytes(state), self.dtype, count=1)[0])


GRU = StateForm((128,), "float32")  # the policy's
LSTM = StateForm((2, 2, 3), "float64")  # of two layers
COUNTER = StateForm((1,), "int64")
FORMS = (GRU, LSTM, COUNTER)


class LineageModel:
    """A model that numbers its steps; the output is the number of the new state.

    Args:
        policy: its name, which is the namespace of its states; "" for the one in service.
            Any other, a canary, refuses some steps.
    """

    def __init__(
        self,
        history: History,
        replica: str,
        form: StateForm,
        now: Callable[[], float],
        policy: str = "",
    ) -> None:
        self._policy = policy
        self._history = history
        self._replica = replica
        self._form = form
        self._now = now

    def initial_state(self, key: Key) -> Array:
        return self._form.initial()

    def step(self, inputs: Sequence[int], states: Array) -> tuple[list[Output | StateError], Array]:
        new = np.zeros_like(states)
        steps = self._history.steps
        outputs: list[Output | StateError] = []
        for row, request in enumerate(inputs):
            if self._policy and request % REFUSED_BY_CANARY == 0:
                outputs.append(StateError("the canary refuses this step"))
                continue
            number, parent = len(steps) + 1, int(states[row].flat[0])
            root, depth = number, 1
            if parent:
                before = self._history.step(parent)
                root, depth = before.root, before.depth + 1
            step = Step(number, request, parent, root, depth, self._replica, self._now())
            step.policy = self._policy
            steps.append(step)
            outputs.append((number,))
            new[row].flat[0] = number
        return outputs, new
