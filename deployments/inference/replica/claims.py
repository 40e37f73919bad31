"""What a replica claims when it opens a session, and what becomes of the claim."""

from __future__ import annotations

from collections.abc import Callable

from deployments.inference.protocol import (
    Claim,
    Floats,
    Key,
    OpenedSession,
    StaleSessionError,
    Version,
)
from deployments.inference.replica.held_states import HeldState, HeldStates, LeaseCounts, batch_of
from deployments.inference.replica.recent import RecentPast


class Claims:
    """Implements :class:`.session.Claimant` for the states that a replica holds."""

    def __init__(self, held: HeldStates, counts: LeaseCounts, now: Callable[[], float]) -> None:
        self._held = held
        self._recent = RecentPast(now)
        self._counts = counts
        self._claimed: list[tuple[HeldState, Version, Floats]] = []

    def claim(self, incarnation: int | None, lease_valid: bool) -> Claim:
        owned, leaving = self._held.claimable()
        self._claimed = [(each, each.version, each.hidden) for each in (*owned, *leaving)]
        claimed = {state.key for state, _, _ in self._claimed}
        past = [each for each in self._recent.given_back() if each[0] not in claimed]
        return Claim(
            incarnation,
            lease_valid,
            owned=batch_of(map(_copy, owned)),
            given_back=batch_of([*past, *map(_copy, leaving)]),
            resets=dict(self._recent.resets),
        )

    def settle(self, opened: OpenedSession) -> None:
        self._counts.sessions += 1
        kept, accepted = set(opened.kept), set(opened.accepted)
        self._held.keep(state for state, _, _ in self._claimed if state.key in kept)
        for state, version, hidden in self._claimed:
            if state.key not in accepted:
                self.lose(state)
                continue
            state.acknowledge(version.step)
            if state.key not in kept:
                self._recent.note_given_back(state.key, version, hidden)

    def give_back(self, state: HeldState) -> None:
        """Take leave of a state whose last commit has arrived."""
        self._recent.note_given_back(state.key, state.version, state.hidden)
        self._held.release(state)

    def lose(self, state: HeldState) -> None:
        """Give up a state that is somebody else's; steps since the last commit are void."""
        self._counts.states_refused += 1
        state.fail(StaleSessionError("the hidden state has moved to another replica"))
        self._held.refuse(state)

    def note_reset(self, run: str, epoch: int) -> None:
        """Remember that copies of a run's states with this epoch or an earlier one are void."""
        self._recent.note_reset(run, epoch)

    def prune(self) -> None:
        self._recent.prune()


def _copy(state: HeldState) -> tuple[Key, Version, Floats]:
    return state.key, state.version, state.hidden
