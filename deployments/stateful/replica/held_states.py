"""States in a replica's memory: one phase per key, and what the authority does not know yet.

Plain values: nothing here waits, and nothing calls the authority.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress, islice
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deployments.stateful.protocol import (
    Grant,
    Key,
    OutcomeUnknownError,
    Receipts,
    StaleSessionError,
    StateBatch,
    Version,
    made,
)
from deployments.stateful.replica.phases import TRANSITIONS, Event, Phase
from deployments.stateful.replica.queues import StepResults
from deployments.stateful.replica.receipts import ReceiptCache
from deployments.stateful.replica.slab import Array, RowNumbers, Slab


@dataclass
class LeaseCounts:
    """Counts since the start of the replica.

    Attributes:
        commit_lag_s: from the oldest step in the last commit to its acknowledgement.
    """

    checkouts: int = 0
    recalls: int = 0
    commits: int = 0
    states_committed: int = 0
    states_refused: int = 0
    sessions: int = 0
    commit_lag_s: float = 0.0


class HeldCopy(NamedTuple):
    """A state at one moment."""

    key: Key
    version: Version
    state: Array
    receipts: Receipts


class HeldState:
    """One state in a replica's memory, which is a row of a slab for as long as this object lives.

    Attributes:
        epoch: of the grant.
        row: of the slab.
        phase: set by ``enter``.
        receipts: of steps whose requests had an idempotency key.

    The columns of the slab have the state, the number of its ``steps`` and, of these:

    - ``dirty``: the newest step is in no commit yet.
    - ``sent``: the latest step that was ever sent, and so may have been committed.
    - ``committed``: the latest step that is known to be committed.
    """

    __slots__ = ("epoch", "key", "phase", "receipts", "row", "slab")

    def __init__(self, key: Key, phase: Phase, slab: Slab) -> None:
        self.key = key
        self.epoch = 0
        self.slab = slab
        self.row = slab.take()
        self.receipts = ReceiptCache()
        self.enter(phase)

    def __del__(self) -> None:
        self.slab.free(self.row)  # claims and commits in flight may have been the last to need it

    def enter(self, phase: Phase) -> None:
        self.phase = phase
        self.slab.owned[self.row] = phase is Phase.OWNED

    @property
    def version(self) -> Version:
        return Version(self.epoch, self.step)

    @property
    def step(self) -> int:
        return int(self.slab.steps[self.row])

    @property
    def committed(self) -> int:
        return int(self.slab.committed[self.row])

    @property
    def state(self) -> Array:
        """The state, which the next step overwrites."""
        state: Array = self.slab.states[self.row]
        return state

    def grant(self, grant: Grant, state: Array) -> None:
        """Become what the authority has granted."""
        slab, row = self.slab, self.row
        self.epoch, step = grant.version
        slab.steps[row] = slab.sent[row] = slab.committed[row] = step
        slab.put(row, state)
        self.receipts = ReceiptCache.of(grant.receipts)

    def copy(self) -> HeldCopy:
        return HeldCopy(self.key, self.version, self.state.copy(), self.receipts.all())


class HeldBatch:
    """B different states, as they are stepped, committed or answered together.

    Attributes:
        by_key: the states, in their order.
        rows: (B,) of the slab.
    """

    __slots__ = ("by_key", "rows", "slab")

    def __init__(self, states: Iterable[HeldState], slab: Slab) -> None:
        self.by_key = {each.key: each for each in states}
        self.rows: RowNumbers = np.array([each.row for each in self.by_key.values()], np.intp)
        self.slab = slab

    def __len__(self) -> int:
        return len(self.by_key)

    @property
    def states(self) -> list[HeldState]:
        return list(self.by_key.values())

    @property
    def keys(self) -> list[Key]:
        return list(self.by_key)

    @property
    def receipts(self) -> list[ReceiptCache]:
        return [each.receipts for each in self.by_key.values()]

    @property
    def owned(self) -> bool:
        """Whether all are owned, whether or not the lease is valid."""
        return bool(np.count_nonzero(self.slab.owned[self.rows]) == len(self.rows))

    @property
    def steps(self) -> NDArray[np.int64]:
        """(B,) copies of the numbers of steps."""
        return self.slab.steps[self.rows]

    @property
    def versions(self) -> list[Version]:
        epochs = [each.epoch for each in self.by_key.values()]
        return list(made(Version, epochs, self.steps.tolist()))

    def gather(self) -> Array:
        """Return copies of the states, (B, \\*shape)."""
        return self.slab.states.take(self.rows, axis=0)

    def part(self, which: Iterable[int]) -> HeldBatch:
        states = self.states
        return HeldBatch([states[each] for each in which], self.slab)


class Answerable(Protocol):
    """B steps whose responses may wait."""

    def respond(self, which: Sequence[int] | None, results: StepResults) -> None: ...

    def fail(self, which: Sequence[int], error: Exception) -> None: ...


class PendingSteps:
    """The responses of a replica that wait until their steps are committed.

    Attributes:
        slab: has the states of all authorities.
    """

    def __init__(self) -> None:
        self.slab = Slab()
        self._unsent: list[_Pending] = []  # no commit that is in flight has their steps
        self._sent: list[_Pending] = []

    def __len__(self) -> int:
        return len(self._unsent) + len(self._sent)

    def add(self, held: HeldBatch, batch: Answerable, results: StepResults) -> None:
        """Let B responses wait, each until its state is committed up to its step."""
        steps = np.array(results.steps, np.int64)
        in_flight = np.count_nonzero(self.slab.sent[held.rows] >= steps)
        waiting = self._sent if in_flight else self._unsent
        waiting.append(_Pending(held, batch, results, held.rows, steps))

    def note_sent(self) -> None:
        """Note that the steps so far are sent: until then no commit can have them."""
        self._sent += self._unsent
        self._unsent = []

    def respond(self) -> None:
        """Send the responses whose steps are committed by now."""
        committed = self.slab.committed
        for each in self._sent:
            each.settle(committed[each.rows] >= each.steps, each.respond)
        self._forget()

    def fail(self, states: Iterable[HeldState]) -> None:
        """Fail the responses of states whose steps are not, or may not be, part of the state."""
        rows = [each.row for each in states]
        if rows and len(self):
            for each in (*self._sent, *self._unsent):
                unknown = each.steps <= self.slab.sent[each.rows]
                failed = np.isin(each.rows, rows)
                each.settle(failed & unknown, partial(each.fail, OutcomeUnknownError()))
                failed = np.isin(each.rows, rows)
                stale = StaleSessionError("The hidden state was granted to another replica")
                each.settle(failed, partial(each.fail, stale))
            self._forget()

    def _forget(self) -> None:
        self._sent = [each for each in self._sent if len(each.rows)]
        self._unsent = [each for each in self._unsent if len(each.rows)]


@dataclass(slots=True)
class _Pending:
    """A batch that waits.

    Attributes:
        held: keeps the rows of its states.
        rows, steps: of the responses that are still to be sent.
        which: of the batch they are; None for all.
    """

    held: HeldBatch
    batch: Answerable
    results: StepResults
    rows: RowNumbers
    steps: NDArray[np.int64]
    which: NDArray[np.intp] | None = None

    def settle(self, ended: NDArray[np.bool_], end: Callable[[Sequence[int] | None], None]) -> None:
        """End some of the responses that are still to be sent."""
        n = np.count_nonzero(ended)
        if n and n == len(ended):
            end(None if self.which is None else self.which.tolist())
            self.rows, self.steps = self.rows[:0], self.steps[:0]
        elif n:
            which = np.arange(len(ended)) if self.which is None else self.which
            end(which[ended].tolist())
            left = ~ended
            self.which, self.rows, self.steps = which[left], self.rows[left], self.steps[left]

    def respond(self, which: Sequence[int] | None) -> None:
        self.batch.respond(which, self.results)

    def fail(self, error: Exception, which: Sequence[int] | None) -> None:
        self.batch.fail(which, error)


def outline_of(copies: Iterable[HeldCopy]) -> StateBatch:
    """Name states and their versions for a message."""
    listed = list(copies)
    nothing = np.empty((len(listed), 0), np.uint8)
    return StateBatch([each.key for each in listed], [each.version for each in listed], nothing)


def batch_of(copies: Sequence[HeldCopy]) -> StateBatch:
    """Pack states for a message, with all of their receipts."""
    if not copies:
        return StateBatch()
    return StateBatch(
        [each.key for each in copies],
        [each.version for each in copies],
        _packed(np.stack([each.state for each in copies])),
        {each.key: each.receipts for each in copies if each.receipts},
    )


def commit_of(stepped: HeldBatch) -> StateBatch:
    """Pack states for a commit, with the receipts that are not committed yet."""
    if not stepped:
        return StateBatch()
    committed = stepped.slab.committed[stepped.rows].tolist()
    new = (
        (key, state.receipts.since(step))
        for (key, state), step in zip(stepped.by_key.items(), committed, strict=True)
        if state.receipts
    )
    receipts = {key: receipts for key, receipts in new if receipts}
    return StateBatch(stepped.keys, stepped.versions, _packed(stepped.gather()), receipts)


def _packed(states: Array) -> NDArray[np.uint8]:
    return states.reshape(len(states), -1).view(np.uint8)


class HeldStates:
    """Every key that is not NOT_OWNED, and the outbox: keys with a step or a release to send.

    Args:
        pending: of all authorities of this replica.
    """

    def __init__(self, pending: PendingSteps | None = None) -> None:
        self.pending = PendingSteps() if pending is None else pending
        self.slab = self.pending.slab
        self._held: dict[Key, HeldState] = {}
        self._outbox: dict[Key, HeldState] = {}

    def batch_of(self, states: Iterable[HeldState]) -> HeldBatch:
        return HeldBatch(states, self.slab)

    def owned(self, key: Key) -> HeldState | None:
        """Return the state if it is owned, whether or not the lease is valid."""
        state = self._held.get(key)
        return state if state is not None and state.phase is Phase.OWNED else None

    def all_owned(self, keys: Iterable[Key]) -> list[HeldState | None]:
        """Return the state of each key that is owned, whether or not the lease is valid."""
        owned = Phase.OWNED
        return [
            state if state is not None and state.phase is owned else None
            for state in map(self._held.get, keys)
        ]

    def is_releasing(self, key: Key) -> bool:
        return self.phase(key) is Phase.RELEASING

    def phase(self, key: Key) -> Phase:
        state = self._held.get(key)
        return Phase.NOT_OWNED if state is None else state.phase

    def in_phase(self, phase: Phase) -> list[HeldState]:
        return [state for state in self._held.values() if state.phase is phase]

    def fire(self, key: Key, event: Event) -> HeldState | None:
        """Move a key to its next phase; return what is held of it then."""
        phase = self._next(key, event)
        state = self._held.get(key)
        if state is None:
            state = self._held[key] = HeldState(key, phase, self.slab)
        else:
            state.enter(phase)
        if phase is Phase.NOT_OWNED:
            del self._held[key]
            self._outbox.pop(key, None)
            return None
        if phase is Phase.RELEASING:
            self._outbox[key] = state
        return state

    def _next(self, key: Key, event: Event) -> Phase:
        before = self.phase(key)
        after = TRANSITIONS.get((before, event))
        assert after is not None, f"invariant 7: {event.name} does not follow {before.name}"
        return after

    # From the checkout of a state to its release

    def request(self, key: Key) -> None:
        self.fire(key, Event.REQUEST)

    def deny(self, key: Key) -> None:
        self.fire(key, Event.DENIED)

    def grant(self, key: Key, grant: Grant, state: Array) -> bool:
        """Own a state; return True if it has been recalled already."""
        recalled = self.phase(key) is Phase.RECALLED
        held = self.fire(key, Event.GRANT)
        assert held is not None
        held.grant(grant, state)
        return recalled

    def recall(self, key: Key) -> bool:
        """Prepare to give a state back; return False if there is nothing (more) to prepare."""
        was_owned = self.phase(key) is Phase.OWNED
        self.fire(key, Event.RECALL)
        return was_owned

    def recall_all(self) -> None:
        for state in self.in_phase(Phase.OWNED):
            self.recall(state.key)

    def release(self, state: HeldState) -> None:
        """Forget a state that was given back, unless a new session has kept it meanwhile."""
        if self._held.get(state.key) is state and state.phase is Phase.RELEASING:
            self.fire(state.key, Event.RELEASED)

    def refuse(self, state: HeldState) -> None:
        """Forget a state of another replica, unless it was granted anew meanwhile."""
        if self._held.get(state.key) is state:
            self.fire(state.key, Event.REFUSED)

    # From a claim to its settlement

    def claimable(self) -> tuple[list[HeldState], list[HeldState]]:
        """Return the states to claim: those owned, and those about to be given back."""
        return self.in_phase(Phase.OWNED), self.in_phase(Phase.RELEASING)

    def is_claimable(self, key: Key) -> bool:
        return self.phase(key) in (Phase.OWNED, Phase.RELEASING)

    def keep(self, claimed: Iterable[HeldState]) -> list[HeldState]:
        """Own exactly the claimed states in a new session; return those that this drops.

        What the session before held falls into three groups:

        1. Keys that the claim does not name: NOT_KEPT. The next request checks them out again.
        2. Keys that it names, held as the object that was claimed: KEPT, whatever their phase.
        3. Keys that it names, but held as another object, because the state was given back and
           requested again while the claim was in flight: the claimed object takes the place of
           the other, which is dropped like those of the first group.
        """
        kept = {state.key: state for state in claimed}
        others = [state for key, state in self._held.items() if kept.get(key) is not state]
        for state in others:
            if state.key not in kept:
                self.fire(state.key, Event.NOT_KEPT)
        for key, state in kept.items():
            if state.phase is not Phase.OWNED or self._held.get(key) is not state:
                phase = self._next(key, Event.KEPT)
                other = self._held.get(key)
                if other is not None and other is not state:
                    other.enter(Phase.NOT_OWNED)
                    self._outbox.pop(key, None)
                state.enter(phase)
                self._held[key] = state
        return [state for state in others if self._held.get(state.key) is not state]

    # From a step to its commit

    def advance(self, stepped: HeldBatch, states: Array) -> None:
        """Record a step of each of B owned states.

        Args:
            states: (B, \\*shape).
        """
        assert stepped.owned, "invariant 1: only its owner steps a state"
        slab, rows = self.slab, stepped.rows
        slab.states[rows] = states
        slab.steps[rows] += 1
        slab.dirty[rows] = True
        self._outbox.update(stepped.by_key)

    @property
    def has_outgoing(self) -> bool:
        return bool(self._outbox)

    def outgoing(self, limit: int) -> tuple[HeldBatch, list[HeldState]]:
        """Return states with steps to commit, which count as sent, and states to give back.

        Args:
            limit: of their number; the others follow in the next commit.
        """
        outbox = self._outbox
        waiting = list(islice(outbox.values(), limit))
        self._outbox = dict(islice(outbox.items(), limit, None))
        dirty = self.slab.dirty[np.array([each.row for each in waiting], np.intp)].tolist()
        stepped = self.batch_of(compress(waiting, dirty))
        releasing = [state for state in waiting if state.phase is Phase.RELEASING]
        self.slab.dirty[stepped.rows] = False
        self.slab.sent[stepped.rows] = stepped.steps
        self.pending.note_sent()
        return stepped, releasing

    def put_back(self, stepped: HeldBatch, releasing: Iterable[HeldState]) -> None:
        """Put back what ``outgoing`` returned: its commit failed, or its outcome is unknown."""
        self.slab.dirty[stepped.rows] = True
        for state in (*stepped.states, *releasing):
            if self._held.get(state.key) is state:
                self._outbox[state.key] = state

    def acknowledge(self, rows: Sequence[int] | RowNumbers, steps: ArrayLike) -> None:
        """Note that B states are committed up to these steps, and send what waited for them.

        Args:
            rows: of the states in the slab, each once.
        """
        rows, committed = np.asarray(rows, np.intp), self.slab.committed
        committed[rows] = np.maximum(committed[rows], steps)
        self.pending.respond()
