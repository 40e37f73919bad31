"""The states that a replica holds: one phase per key, and what is still to be told about each.

Plain values: nothing here waits, and nothing calls the authority.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from deployments.stateful.protocol import (
    Floats,
    Grant,
    Key,
    Receipt,
    Version,
)
from deployments.stateful.replica.held_state import HeldState
from deployments.stateful.replica.phases import TRANSITIONS, Event, Phase
from deployments.stateful.replica.receipts import ReceiptCache


@dataclass
class LeaseCounts:
    """Counted since the start."""

    checkouts: int = 0
    recalls: int = 0
    commits: int = 0
    states_committed: int = 0
    states_refused: int = 0
    sessions: int = 0
    commit_lag_s: float = 0.0  # from the oldest step in the last commit to its acknowledgement


class HeldStates:
    """Every key that is not foreign, and the outbox: those with a step or a release to tell."""

    def __init__(self) -> None:
        self._held: dict[Key, HeldState] = {}
        self._outbox: dict[Key, HeldState] = {}

    def owned(self, key: Key) -> HeldState | None:
        """Return the state if it is owned; the lease is not asked."""
        state = self._held.get(key)
        return state if state is not None and state.phase is Phase.OWNED else None

    def is_leaving(self, key: Key) -> bool:
        return self.phase(key) is Phase.LEAVING

    def phase(self, key: Key) -> Phase:
        state = self._held.get(key)
        return Phase.FOREIGN if state is None else state.phase

    def in_phase(self, phase: Phase) -> list[HeldState]:
        return [state for state in self._held.values() if state.phase is phase]

    def fire(self, key: Key, event: Event) -> HeldState | None:
        """Move a key to its next phase.

        Returns:
            What is held of it then; None for a foreign key.
        """
        phase = self._next(key, event)
        state = self._held.get(key)
        if state is None:
            state = self._held[key] = HeldState(key, phase)
        state.phase = phase
        if phase is Phase.FOREIGN:
            del self._held[key]
            self._outbox.pop(key, None)
            return None
        if phase is Phase.LEAVING:
            self._outbox[key] = state
        return state

    def _next(self, key: Key, event: Event) -> Phase:
        before = self.phase(key)
        after = TRANSITIONS.get((before, event))
        assert after is not None, f"invariant 7: {event.name} does not follow {before.name}"
        return after

    # From the request for a state to its return

    def ask(self, key: Key) -> None:
        self.fire(key, Event.ASK)

    def deny(self, key: Key) -> None:
        self.fire(key, Event.DENIED)

    def grant(self, key: Key, grant: Grant, zeros: Floats) -> bool:
        """Own a state; return True when it has been recalled already."""
        recalled = self.phase(key) is Phase.ASKED_BACK
        state = self.fire(key, Event.GRANT)
        assert state is not None
        state.version, state.receipts = grant.version, ReceiptCache(grant.receipts)
        state.sent = state.committed = grant.version.step
        state.hidden = zeros if grant.hidden is None else grant.hidden
        return recalled

    def recall(self, key: Key) -> bool:
        """Prepare to give a state back; return False when there is nothing (more) to prepare."""
        was_owned = self.phase(key) is Phase.OWNED
        self.fire(key, Event.RECALL)
        return was_owned

    def recall_all(self) -> None:
        for state in self.in_phase(Phase.OWNED):
            self.recall(state.key)

    def release(self, state: HeldState) -> None:
        """Forget a state that was given back, unless a new session has kept it meanwhile."""
        if self._held.get(state.key) is state and state.phase is Phase.LEAVING:
            self.fire(state.key, Event.RELEASED)

    def refuse(self, state: HeldState) -> None:
        """Forget a state that is somebody else's, unless it has been granted anew meanwhile."""
        if self._held.get(state.key) is state:
            self.fire(state.key, Event.REFUSED)

    # From a claim to its outcome

    def claimable(self) -> tuple[list[HeldState], list[HeldState]]:
        """Return the states to claim: those owned, and those about to be given back."""
        return self.in_phase(Phase.OWNED), self.in_phase(Phase.LEAVING)

    def is_claimable(self, key: Key) -> bool:
        return self.phase(key) in (Phase.OWNED, Phase.LEAVING)

    def keep(self, claimed: Iterable[HeldState]) -> list[HeldState]:
        """Own these claimed states in a new session, and no others; return what is gone by that."""
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

    def advance(self, state: HeldState, hidden: Floats, receipt: Receipt | None = None) -> None:
        """Note a step of an owned state."""
        assert state.phase is Phase.OWNED, "invariant 1: only its owner steps a state"
        state.hidden = hidden
        state.version = Version(state.version.epoch, state.version.step + 1)
        state.dirty = True
        if receipt is not None:
            state.receipts.add(receipt)
        self._outbox[state.key] = state

    @property
    def has_outgoing(self) -> bool:
        return bool(self._outbox)

    def outgoing(self, limit: int) -> tuple[list[HeldState], list[HeldState]]:
        """Return states with steps to commit, which count as sent, and those to give back.

        Args:
            limit: of their number; the others follow in the next commit.
        """
        keys = list(self._outbox)[:limit]
        waiting = [self._outbox.pop(key) for key in keys]
        stepped = [state for state in waiting if state.dirty]
        leaving = [state for state in waiting if state.phase is Phase.LEAVING]
        for state in stepped:
            state.dirty = False
            state.sent = state.version.step
        return stepped, leaving

    def unsent(self, stepped: Iterable[HeldState], leaving: Iterable[HeldState]) -> None:
        """Put back what ``outgoing`` returned: it did not arrive, or nobody knows."""
        for state in stepped:
            state.dirty = True
        for state in (*stepped, *leaving):
            if self._held.get(state.key) is state:
                self._outbox[state.key] = state
