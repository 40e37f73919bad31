"""A replica's claim when it opens a session, and its settlement.

The store has a snapshot of most states, and the next term has read it. So a claim to many states
begins with outlines, which name states and their versions. Only the states that the authority asks
for follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from deployments.stateful.protocol import Claimed, ClaimPart, Key, StateBatch
from deployments.stateful.replica.held_state import HeldCopy, HeldState
from deployments.stateful.replica.held_states import HeldStates, LeaseCounts, batch_of, outline_of
from deployments.stateful.replica.slab import select

STATES_PER_PART = 1000
NAMES_PER_PART = 5000
"""Each part costs a call. A part of names alone is still smaller than one of states."""

KEEP_RELEASED_S = 30.0
"""By then the next owner has its grant, or the store has a snapshot."""

T = TypeVar("T")
U = TypeVar("U")


class RecentlyReleased:
    """Copies of the states that a replica gave back lately.

    While a state moves between replicas, for a moment only the authority has it. If its process
    dies then, the last owner still has the state. It keeps the copies until the next term has
    received them, however long that takes.

    Args:
        now: clock in seconds.
        ttl_s: of a run, which may have been stepped by others since, and have expired.
    """

    def __init__(self, now: Callable[[], float], ttl_s: float = math.inf) -> None:
        self._now = now
        self._ttl_s = ttl_s
        self._keep_s = min(KEEP_RELEASED_S, ttl_s)
        self._released: dict[Key, tuple[float, HeldCopy]] = {}  # oldest first

    def note(self, copy: HeldCopy) -> None:
        self._released.pop(copy.key, None)
        self._released[copy.key] = self._now(), copy

    def copies(self) -> tuple[list[HeldCopy], list[HeldCopy]]:
        """Return the copies, and those of runs that may have expired since."""
        copies, expired = list[HeldCopy](), list[HeldCopy]()
        expires_at = self._now() - self._ttl_s
        for at, copy in self._released.values():
            (expired if at < expires_at else copies).append(copy)
        return copies, expired

    def prune(self) -> None:
        """Drop old copies; to be called only while an authority answers."""
        too_old = self._now() - self._keep_s
        while self._released:
            key = next(iter(self._released))
            at, _ = self._released[key]
            if at >= too_old:
                return
            del self._released[key]


@dataclass
class Part:
    """A part of a claim, and the copies that it names."""

    message: ClaimPart
    owned: list[HeldCopy]
    released: list[HeldCopy]


class Claims:
    """Makes and settles the claims for the states that a replica holds."""

    def __init__(
        self,
        held: HeldStates,
        counts: LeaseCounts,
        now: Callable[[], float],
        ttl_s: float = math.inf,
    ) -> None:
        self._held = held
        self._recent = RecentlyReleased(now, ttl_s)
        self._counts = counts
        self._begin()

    def _begin(self, expired: bool = False) -> None:
        self._expired = expired
        self._claimed: list[tuple[HeldState, HeldCopy, bool]] = []  # True: as owned
        self._owned: list[HeldCopy] = []  # to be claimed in full, like the next list
        self._released: list[HeldCopy] = []
        self._past: list[HeldCopy] = []  # of runs that may have expired
        self._lost: set[Key] = set()

    def outlines(self, expired: bool = False) -> Iterator[Part]:
        """Begin a claim; steps from now on follow in commits.

        Args:
            expired: as in a ClaimPart.
        """
        self._begin(expired)  # an earlier attempt may have failed
        owned, releasing = self._held.claimable()
        copies, self._past = map(self._not_claimable, self._recent.copies())
        released: list[HeldState | HeldCopy] = [*copies, *releasing]
        if max(len(owned), len(released)) <= STATES_PER_PART:
            self._owned, self._released = self._copy(owned, True), self._copy(released, False)
            return
        for some_owned, some_released in _slices(owned, released, NAMES_PER_PART):
            own, other = self._copy(some_owned, True), self._copy(some_released, False)
            yield self._part(outline_of, own, other, last=False)

    def _not_claimable(self, copies: list[HeldCopy]) -> list[HeldCopy]:
        return [copy for copy in copies if not self._held.is_claimable(copy.key)]

    def _copy(self, held: Sequence[HeldState | HeldCopy], as_owned: bool) -> list[HeldCopy]:
        """Copy states as they are now, which counts as sent; they may be recalled meanwhile."""
        copies = []
        for each in held:
            if isinstance(each, HeldState):
                copy = each.copy()
                self._held.slab.sent[each.row] = copy.version.step
                self._claimed.append((each, copy, as_owned))
            else:
                copy = each
            copies.append(copy)
        return copies

    def details(self) -> Iterator[Part]:
        """Yield what is to be claimed in full, after the outlines are settled."""
        for at in range(0, len(self._past), STATES_PER_PART):
            past = batch_of(self._past[at : at + STATES_PER_PART])
            yield Part(ClaimPart(released=past, last=False, expired=True), [], [])
        slices = _slices(self._owned, self._released, STATES_PER_PART)
        for number, (own, other) in enumerate(slices, start=1):
            yield self._part(batch_of, own, other, last=number == len(slices))

    def _part(
        self,
        message_of: Callable[[Sequence[HeldCopy]], StateBatch],
        owned: list[HeldCopy],
        released: list[HeldCopy],
        last: bool,
    ) -> Part:
        message = ClaimPart(message_of(owned), message_of(released), last, self._expired)
        return Part(message, owned, released)

    def settle_part(self, part: Part, response: Claimed) -> None:
        """Apply the response to a part."""
        if response.wanted:
            wanted = set(response.wanted)
            self._owned += [copy for copy in part.owned if copy.key in wanted]
            self._released += [copy for copy in part.released if copy.key in wanted]
        self._lost |= set(response.lost)

    def settle(self) -> None:
        """Own in the new session what was claimed and not lost, and nothing else."""
        self._counts.sessions += 1
        kept, lost = [], []
        acknowledged: dict[int, int] = {}
        for state, copy, owned in self._claimed:
            if copy.key in self._lost:
                lost.append(state)
                continue
            acknowledged[state.row] = copy.version.step
            if owned:
                kept.append(state)
            else:
                self._recent.note(copy)
        self._held.pending.note_sent()
        self._held.acknowledge(select(list(acknowledged)), list(acknowledged.values()))
        self._held.pending.fail(self._held.keep(kept))
        self.lose(lost)
        self._begin()  # or states released later would stay in memory

    def release(self, state: HeldState) -> None:
        """Forget a state that was given back and acknowledged."""
        self._recent.note(state.copy())
        self._held.release(state)

    def lose(self, states: Sequence[HeldState]) -> None:
        """Forget states of another replica; steps since the last commit are void."""
        self._counts.states_refused += len(states)
        self._held.pending.fail(states)
        for state in states:
            self._held.refuse(state)

    def prune(self) -> None:
        self._recent.prune()


def _slices(owned: list[T], released: list[U], size: int) -> list[tuple[list[T], list[U]]]:
    """Divide both into parts, at least one."""
    starts = range(0, max(1, len(owned), len(released)), size)
    return [(owned[at : at + size], released[at : at + size]) for at in starts]
