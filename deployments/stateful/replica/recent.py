"""What a replica remembers of states that it has given back.

While a state passes from one replica to another, for a moment only the authority has it. If its
process dies then, the memory of the last owner fills the gap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from deployments.stateful.protocol import Key
from deployments.stateful.replica.held_state import HeldCopy

KEEP_S = 30.0  # by then the next owner has its grant, or a copy is in the store


class _GivenBack(NamedTuple):
    at: float
    copy: HeldCopy


class RecentlyReleased:
    """Copies of states given back lately.

    Args:
        now: clock in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._given_back: dict[Key, _GivenBack] = {}  # oldest first

    def note(self, copy: HeldCopy) -> None:
        self._given_back.pop(copy.key, None)
        self._given_back[copy.key] = _GivenBack(self._now(), copy)

    def copies(self) -> list[HeldCopy]:
        self.prune()
        return [each.copy for each in self._given_back.values()]

    def prune(self) -> None:
        too_old = self._now() - KEEP_S
        while self._given_back:
            key = next(iter(self._given_back))
            if self._given_back[key].at >= too_old:
                return
            del self._given_back[key]
