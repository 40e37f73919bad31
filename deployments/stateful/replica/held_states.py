"""States in a replica's memory: one phase per key, and what the authority does not know yet.

Plain values: nothing here waits, and nothing calls the authority.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deployments.stateful.protocol import (
    Grant,
    Key,
    OutcomeUnknownError,
    Receipt,
    Receipts,
    StaleSessionError,
    StateBatch,
    StateError,
    Version,
)
from deployments.stateful.replica.phases import TRANSITIONS, Event, Phase
from deployments.stateful.replica.queues import Response, StepResult
from deployments.stateful.replica.receipts import ReceiptCache

Array = NDArray[Any]

_NEVER = Version(0, 0)
_NO_STATE: Array = np.empty(0, np.uint8)


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


class PendingResponse(NamedTuple):
    """A response that waits until its step is committed."""

    response: Response
    result: StepResult


@dataclass(eq=False, slots=True)
class HeldState:
    """One state in a replica's memory. A step replaces ``state`` and never writes into it.

    Attributes:
        dirty: the newest step is in no commit yet.
        sent: the latest step that was ever sent, and so may have been committed.
        committed: the latest step that is known to be committed.
        receipts: of steps whose requests had an idempotency key.
        pending: responses, in the order of their steps.
    """

    key: Key
    phase: Phase
    version: Version = _NEVER
    state: Array = field(default_factory=lambda: _NO_STATE)
    dirty: bool = False
    sent: int = 0
    committed: int = 0
    receipts: ReceiptCache = field(default_factory=ReceiptCache)
    pending: list[PendingResponse] = field(default_factory=list)

    def copy(self) -> HeldCopy:
        return HeldCopy(self.key, self.version, self.state, self.receipts.all())

    def acknowledge(self, up_to_step: int) -> None:
        """Send the responses that waited for the commit of a step or of an earlier one."""
        self.committed = max(self.committed, up_to_step)
        if not self.pending:
            return
        due = [each for each in self.pending if each.result.step <= up_to_step]
        self.pending = [each for each in self.pending if each.result.step > up_to_step]
        for each in due:
            if not each.response.done():  # a disconnected client has cancelled it
                each.response.set_result(each.result)

    def fail_pending(self) -> None:
        """Fail the responses that wait: their steps are not, or may not be, part of the state."""
        pending, self.pending = self.pending, []
        for each in pending:
            error: StateError = StaleSessionError("The hidden state was granted to another replica")
            if each.result.step <= self.sent:
                error = OutcomeUnknownError()
            if not each.response.done():
                each.response.set_exception(error)


def outline_of(copies: Iterable[HeldCopy]) -> StateBatch:
    """Name states and their versions for a message."""
    listed = list(copies)
    nothing = np.empty((len(listed), 0), np.uint8)
    return StateBatch([each.key for each in listed], [each.version for each in listed], nothing)


def batch_of(copies: Sequence[HeldCopy]) -> StateBatch:
    """Pack states for a message, with all of their receipts."""
    return _pack(copies, {each.key: each.receipts for each in copies if each.receipts})


def commit_of(stepped: Sequence[HeldState]) -> StateBatch:
    """Pack states for a commit, with the receipts that are not committed yet."""
    new = ((each.key, each.receipts.since(each.committed)) for each in stepped if each.receipts)
    return _pack(stepped, {key: receipts for key, receipts in new if receipts})


def _pack(
    held: Sequence[HeldState] | Sequence[HeldCopy], receipts: dict[Key, Receipts]
) -> StateBatch:
    if not held:
        return StateBatch()
    packed = np.concatenate([each.state for each in held]).reshape(len(held), -1).view(np.uint8)
    return StateBatch(
        [each.key for each in held], [each.version for each in held], packed, receipts
    )


class HeldStates:
    """Every key that is not NOT_OWNED, and the outbox: keys with a step or a release to send."""

    def __init__(self) -> None:
        self._held: dict[Key, HeldState] = {}
        self._outbox: dict[Key, HeldState] = {}

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
            state = self._held[key] = HeldState(key, phase)
        state.phase = phase
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
        held.version, held.receipts = grant.version, ReceiptCache(grant.receipts)
        held.sent = held.committed = grant.version.step
        held.state = state
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
                state.phase = self._next(key, Event.KEPT)
                self._held[key] = state
        return [state for state in others if self._held.get(state.key) is not state]

    # From a step to its commit

    def advance(
        self, held: Sequence[HeldState], states: Array, receipts: Sequence[Receipt | None] = ()
    ) -> None:
        """Record a step of each of B owned states.

        Args:
            states: (B, \\*shape), copied: a row would keep the memory of all.
            receipts: B, or none at all.
        """
        for state, new in zip(held, states, strict=True):
            assert state.phase is Phase.OWNED, "invariant 1: only its owner steps a state"
            state.state = new.copy()
            epoch, step = state.version
            state.version = Version(epoch, step + 1)
            state.dirty = True
            self._outbox[state.key] = state
        for state, receipt in zip(held, receipts, strict=False):
            if receipt is not None:
                state.receipts.add(receipt)

    @property
    def has_outgoing(self) -> bool:
        return bool(self._outbox)

    def outgoing(self, limit: int) -> tuple[list[HeldState], list[HeldState]]:
        """Return states with steps to commit, which count as sent, and states to give back.

        Args:
            limit: of their number; the others follow in the next commit.
        """
        keys = list(self._outbox)[:limit]
        waiting = [self._outbox.pop(key) for key in keys]
        stepped = [state for state in waiting if state.dirty]
        releasing = [state for state in waiting if state.phase is Phase.RELEASING]
        for state in stepped:
            state.dirty = False
            state.sent = state.version.step
        return stepped, releasing

    def put_back(self, stepped: Iterable[HeldState], releasing: Iterable[HeldState]) -> None:
        """Put back what ``outgoing`` returned: its commit failed, or its outcome is unknown."""
        for state in stepped:
            state.dirty = True
        for state in (*stepped, *releasing):
            if self._held.get(state.key) is state:
                self._outbox[state.key] = state
