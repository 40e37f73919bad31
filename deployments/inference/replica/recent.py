"""What a replica remembers beyond what it owns, for an authority that has lost its memory.

While a state passes from one replica to another, for a moment only the authority has it; and of a
run that was reset, for a moment only the authority knows. If its process dies then, the replicas'
memories fill the gap.
"""

from __future__ import annotations

from collections.abc import Callable

from deployments.inference.protocol import Floats, Key, Version

KEEP_S = 30.0  # by then the next owner has its grant, or a snapshot is written
MAX_RESETS = 10_000


class RecentPast:
    """Copies of states given back lately, and runs reset lately.

    Args:
        now: clock in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._given_back: dict[Key, tuple[float, Version, Floats]] = {}  # oldest first
        self.resets: dict[str, int] = {}  # run -> epoch, oldest first

    def note_given_back(self, key: Key, version: Version, hidden: Floats) -> None:
        self._given_back.pop(key, None)
        self._given_back[key] = (self._now(), version, hidden)

    def note_reset(self, run: str, epoch: int) -> None:
        self.resets.pop(run, None)
        self.resets[run] = epoch
        if len(self.resets) > MAX_RESETS:
            del self.resets[next(iter(self.resets))]

    def given_back(self) -> list[tuple[Key, Version, Floats]]:
        self.prune()
        return [(key, version, hidden) for key, (_, version, hidden) in self._given_back.items()]

    def prune(self) -> None:
        too_old = self._now() - KEEP_S
        while self._given_back:
            key = next(iter(self._given_back))
            if self._given_back[key][0] >= too_old:
                return
            del self._given_back[key]
