"""States in a replica's memory: one phase per key, and what the authority does not know yet.

Plain values: nothing here waits, and nothing calls the authority.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress, islice

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deployments.stateful.protocol import Grant, Key, StateBatch
from deployments.stateful.replica.held_state import HeldBatch, HeldCopy, HeldState
from deployments.stateful.replica.pending import PendingSteps
from deployments.stateful.replica.phases import TRANSITIONS, Event, Phase
from deployments.stateful.replica.slab import Array, Selection, select


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
        dirty = self.slab.dirty[select([each.row for each in waiting])].tolist()
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

    def acknowledge(self, rows: Selection | list[int], steps: ArrayLike) -> None:
        """Note that B states are committed up to these steps, and send what waited for them.

        Args:
            rows: of the states in the slab, each once.
        """
        committed = self.slab.committed
        committed[rows] = np.maximum(committed[rows], steps)
        self.pending.respond()
