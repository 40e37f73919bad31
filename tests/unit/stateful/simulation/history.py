"""What happened in one schedule: steps, answers, commits, resets and faults, by true time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NamedTuple

import numpy as np

from deployments.stateful.protocol import Key, Output
from deployments.stateful.replica.held_states import Array

ZEROS = 0


@dataclass(slots=True, eq=False)
class Made:
    """One step that a replica has made, whether or not anybody ever hears of it.

    Attributes:
        number: of the state; its first element carries it.
        parent: number of the state that was stepped.
        root: number of the first state after zeros.
        depth: number of steps since zeros.
        committed_at: when an authority kept it, or a later state of its line.
        refused_at: when its replica learned that it is void.
    """

    number: int
    request: int
    parent: int
    root: int
    depth: int
    replica: str
    at: float
    committed_at: float | None = None
    refused_at: float | None = None


class Outcome(Enum):
    PENDING = auto()
    ANSWERED = auto()
    REFUSED = auto()  # an error that says: not stepped
    UNKNOWN = auto()  # nobody has told the client
    CANCELLED = auto()


@dataclass(slots=True, eq=False)
class Asked:
    """One attempt at a prediction as its client saw it."""

    number: int
    key: Key
    replica: str
    sent: float
    request_id: str | None = None
    outcome: Outcome = Outcome.PENDING
    ended: float | None = None
    state: int = ZEROS
    step: int = 0
    error: str = ""


@dataclass(slots=True, eq=False)
class ResetCall:
    """``executed``: when an authority last ended carrying it out, repeated messages included."""

    run: str
    sent: float
    executed: float = -1.0
    done: float | None = None


@dataclass(slots=True, eq=False)
class Fault:
    """``who`` names a process or a link: two names, sorted, with a bar between them."""

    kind: str
    who: str
    begin: float
    end: float = float("inf")

    def overlaps(self, begin: float, end: float) -> bool:
        return self.begin <= end and self.end >= begin


@dataclass(slots=True, eq=False)
class Succession:
    """A new life of an authority reads what the store has kept, when replicas know more.

    Attributes:
        remembered: by key, (replica, number of the state).
    """

    shard: int
    shards: int
    at: float
    remembered: dict[Key, list[tuple[str, int]]]


@dataclass
class History:
    states: list[Made] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    resets: list[ResetCall] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    successions: list[Succession] = field(default_factory=list)
    copies: dict[Key, list[tuple[float, int]]] = field(default_factory=dict)
    sessions: dict[str, list[float]] = field(default_factory=dict)
    restarts: list[float] = field(default_factory=list)  # of everything
    defects: list[str] = field(default_factory=list)
    shards_of: dict[str, int] = field(default_factory=dict)  # by replica: of its layout

    @property
    def shards_used(self) -> set[int]:
        return set(self.shards_of.values())

    def made(self, number: int) -> Made:
        return self.states[number - 1]

    def line(self, number: int) -> Iterator[Made]:
        """Yield a state and those it was made from, the newest first."""
        while number != ZEROS:
            state = self.states[number - 1]
            yield state
            number = state.parent

    def commit(self, number: int, at: float) -> None:
        """Note that an authority has kept a state, and with it its whole line."""
        for state in self.line(number):
            if state.committed_at is not None:
                return
            state.committed_at = at

    def copied(self, key: Key, at: float) -> int:
        """Return the number of the state whose copy was in the store at a time."""
        found = ZEROS
        for when, number in self.copies.get(key, ()):
            if when > at:
                break
            found = number
        return found

    def descends(self, number: int, ancestor: int) -> bool:
        depth = self.made(ancestor).depth
        for state in self.line(number):
            if state.depth <= depth:
                return state.number == ancestor
        return False


class StateForm(NamedTuple):
    """The shape and data type of states; the first element is the number of the state."""

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


FORMS = (StateForm((128,), "float32"), StateForm((2, 2, 3), "float64"), StateForm((1,), "int64"))
"""The policy's hidden state, a two-layer LSTM's, and a counter."""


class LineageModel:
    """A model whose states are numbers of steps; each output is the number of its state."""

    def __init__(self, history: History, replica: str, form: StateForm, now: Any) -> None:
        self._history = history
        self._replica = replica
        self._form = form
        self._now = now

    def initial_state(self, key: Key) -> Array:
        return self._form.initial()

    def step(self, inputs: Sequence[int], states: Array) -> tuple[list[Output], Array]:
        new = np.zeros_like(states)
        made = self._history.states
        for row, request in enumerate(inputs):
            number, parent = len(made) + 1, int(states[row].flat[0])
            before = made[parent - 1] if parent else None
            root, depth = (before.root, before.depth + 1) if before else (number, 1)
            made.append(Made(number, request, parent, root, depth, self._replica, self._now()))
            new[row].flat[0] = number
        return [(int(state.flat[0]),) for state in new], new
