"""What a replica claims when it opens a session, and what becomes of the claim.

Most of many states are in the store as the replica has them, and the next life of the authority has
read them there. So a claim to many begins with outlines, which name states and their versions, and
only the hidden states that the authority asks for follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from deployments.stateful.protocol import Claimed, ClaimPart, Key
from deployments.stateful.replica.held_state import HeldCopy, HeldState, batch_of, outline_of
from deployments.stateful.replica.held_states import HeldStates, LeaseCounts
from deployments.stateful.replica.recent import RecentlyReleased

STATES_PER_PART = 1000
NAMES_PER_PART = 5000
"""Each part costs a call; one of names alone is still smaller than one of states."""

T = TypeVar("T")
U = TypeVar("U")


@dataclass
class Part:
    """A part of a claim, and what it speaks of."""

    message: ClaimPart
    owned: list[HeldCopy]
    given_back: list[HeldCopy]


class Claims:
    """Implements :class:`.session.Claimant` for the states that a replica holds."""

    def __init__(self, held: HeldStates, counts: LeaseCounts, now: Callable[[], float]) -> None:
        self._held = held
        self._recent = RecentlyReleased(now)
        self._counts = counts
        self._begin()

    def _begin(self) -> None:
        self._claimed: list[tuple[HeldState, HeldCopy, bool]] = []  # True: as owned
        self._owned: list[HeldCopy] = []  # not claimed in full yet, as the next one
        self._given_back: list[HeldCopy] = []
        self._lost: set[Key] = set()

    def outlines(self, expired: bool = False) -> Iterator[Part]:
        """Begin a claim; what is stepped from now on follows in commits.

        Args:
            expired: nobody could use what is held any more; nothing is claimed.
        """
        self._begin()  # an attempt before may have failed on its way
        if expired:
            return
        owned, leaving = self._held.claimable()
        past = [copy for copy in self._recent.copies() if not self._held.is_claimable(copy.key)]
        given_back: list[HeldState | HeldCopy] = [*past, *leaving]
        if max(len(owned), len(given_back)) <= STATES_PER_PART:
            self._owned, self._given_back = self._copy(owned, True), self._copy(given_back, False)
            return
        for some_owned, some_given_back in _slices(owned, given_back, NAMES_PER_PART):
            own, other = self._copy(some_owned, True), self._copy(some_given_back, False)
            yield Part(ClaimPart(outline_of(own), outline_of(other), last=False), own, other)

    def _copy(self, held: Sequence[HeldState | HeldCopy], as_owned: bool) -> list[HeldCopy]:
        """Copy states as they are now, which counts as sent; they may be recalled meanwhile."""
        copies = []
        for each in held:
            if isinstance(each, HeldState):
                each.sent = each.version.step
                copy = each.copy
                self._claimed.append((each, copy, as_owned))
            else:
                copy = each
            copies.append(copy)
        return copies

    def details(self) -> Iterator[Part]:
        """Yield what is to be claimed in full; when the outlines are settled."""
        slices = _slices(self._owned, self._given_back, STATES_PER_PART)
        for number, (own, other) in enumerate(slices, start=1):
            last = number == len(slices)
            yield Part(ClaimPart(batch_of(own), batch_of(other), last), own, other)

    def settle_part(self, part: Part, answer: Claimed) -> None:
        """Take over what has become of a part."""
        if answer.wanted:
            wanted = set(answer.wanted)
            self._owned += [copy for copy in part.owned if copy.key in wanted]
            self._given_back += [copy for copy in part.given_back if copy.key in wanted]
        self._lost |= set(answer.lost)

    def settle(self) -> None:
        """Own in the new session what was claimed and not lost, and nothing else."""
        self._counts.sessions += 1
        kept, lost = [], []
        for state, copy, owned in self._claimed:
            if copy.key in self._lost:
                lost.append(state)
                continue
            state.acknowledge(copy.version.step)
            if owned:
                kept.append(state)
            else:
                self._recent.note(copy)
        for state in self._held.keep(kept):
            state.give_up()
        for state in lost:
            self.lose(state)
        self._begin()  # or states given back later would stay in memory

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


def _slices(owned: list[T], given_back: list[U], in_each: int) -> list[tuple[list[T], list[U]]]:
    """Divide both into parts, at least one."""
    starts = range(0, max(1, len(owned), len(given_back)), in_each)
    return [(owned[at : at + in_each], given_back[at : at + in_each]) for at in starts]
