"""A state in its owner's memory, and what is counted about such states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from deployments.inference.protocol import Floats, Key, StateBatch, Version


@dataclass(slots=True)
class OwnedState:
    """One state in the owner's memory. A step replaces ``hidden`` (128,), never writes into it."""

    schedule_commit: Callable[[], None]
    version: Version
    hidden: Floats
    dirty: bool = False
    # strict mode: answers that wait until their step is committed
    unacknowledged: list[tuple[int, Callable[[Exception | None], None]]] = field(
        default_factory=list
    )

    def advance(self, hidden: Floats) -> None:
        """Record a step; its commit goes out behind the answer, or at once in strict mode."""
        self.hidden = hidden
        self.version = Version(self.version.epoch, self.version.step + 1)
        self.dirty = True
        self.schedule_commit()

    def acknowledge(self, up_to_step: int) -> None:
        due = [answer for step, answer in self.unacknowledged if step <= up_to_step]
        self.unacknowledged = [each for each in self.unacknowledged if each[0] > up_to_step]
        for answer in due:
            answer(None)

    def fail(self, error: Exception) -> None:
        unacknowledged, self.unacknowledged = self.unacknowledged, []
        for _, answer in unacknowledged:
            answer(error)


@dataclass
class LeaseCounts:
    """Counted since the start, for metrics."""

    checkouts: int = 0
    recalls: int = 0
    commits: int = 0
    states_committed: int = 0
    states_refused: int = 0
    sessions: int = 0
    commit_lag_s: float = 0.0  # from the oldest step in the last commit to its acknowledgement


def batch_of(states: dict[Key, tuple[Version, Floats]]) -> StateBatch:
    if not states:
        return StateBatch()
    return StateBatch(
        list(states),
        [version for version, _ in states.values()],
        np.stack([hidden for _, hidden in states.values()]),
    )
