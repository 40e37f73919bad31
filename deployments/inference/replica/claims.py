"""What a replica claims when it opens a session, and what becomes of the claim."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from deployments.inference.protocol import Claimed, ClaimPart
from deployments.inference.replica.held_state import HeldCopy, HeldState, batch_of
from deployments.inference.replica.held_states import HeldStates, LeaseCounts
from deployments.inference.replica.recent import RecentPast

STATES_PER_PART = 1000


@dataclass
class Part:
    """A part of a claim, and the states in it that are held."""

    message: ClaimPart
    claimed: list[tuple[HeldState, HeldCopy]]


class Claims:
    """Implements :class:`.session.Claimant` for the states that a replica holds."""

    def __init__(self, held: HeldStates, counts: LeaseCounts, now: Callable[[], float]) -> None:
        self._held = held
        self._recent = RecentPast(now)
        self._counts = counts
        self._kept: list[HeldState] = []
        self._lost: list[HeldState] = []

    def parts(self, lease_valid: bool, expired: bool = False) -> Iterator[Part]:
        """Yield what is held, in parts; what is stepped meanwhile follows in commits."""
        self._kept, self._lost = [], []  # an attempt before may have failed on its way
        if expired:
            yield Part(ClaimPart(), [])
            return
        owned, leaving = self._held.claimable()
        held = {state.key for state in (*owned, *leaving)}
        past = [copy for copy in self._recent.copies() if copy.key not in held]
        given_back: list[HeldState | HeldCopy] = [*past, *leaving]
        n_parts = max(1, -(-max(len(owned), len(given_back)) // STATES_PER_PART))
        for number in range(n_parts):
            here = slice(number * STATES_PER_PART, (number + 1) * STATES_PER_PART)
            claimed: list[tuple[HeldState, HeldCopy]] = []
            message = ClaimPart(
                batch_of(_copies(owned[here], claimed)),
                batch_of(_copies(given_back[here], claimed)),
                lease_valid,
                last=number == n_parts - 1,
            )
            yield Part(message, claimed)

    def settle_part(self, part: Part, answer: Claimed) -> None:
        """Take over what has become of a part."""
        kept, accepted = set(answer.kept), set(answer.accepted)
        for state, copy in part.claimed:
            if copy.key not in accepted:
                self._lost.append(state)
                continue
            if copy.key in kept or part.message.lease_valid:
                state.acknowledge(copy.version.step)
            if copy.key in kept:
                self._kept.append(state)
            else:
                self._recent.note(copy)

    def settle(self) -> None:
        """Own in the new session what was kept, and nothing else."""
        self._counts.sessions += 1
        for state in self._held.keep(self._kept):
            state.give_up()
        for state in self._lost:
            self.lose(state)
        self._kept, self._lost = [], []  # or states given back later would stay in memory

    def give_back(self, state: HeldState) -> None:
        """Take leave of a state whose last commit has arrived."""
        self._recent.note(state.copy)
        self._held.release(state)

    def lose(self, state: HeldState) -> None:
        """Give up a state that is somebody else's; steps since the last commit are void."""
        self._counts.states_refused += 1
        state.give_up()
        self._held.refuse(state)

    def prune(self) -> None:
        self._recent.prune()


def _copies(
    held: Sequence[HeldState | HeldCopy], claimed: list[tuple[HeldState, HeldCopy]]
) -> list[HeldCopy]:
    """Copy states as they are now, and note those that are held as claimed."""
    copies = []
    for each in held:
        if isinstance(each, HeldState):
            each.sent = each.version.step
            copy = each.copy
            claimed.append((each, copy))
        else:
            copy = each
        copies.append(copy)
    return copies
