"""What a replica counts on its way, for metrics that are published elsewhere."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from deployments.metrics.sampled import Sampled


@dataclass
class StepCounts:
    """Counted since the start.

    Attributes:
        predictions: steps made, by (junction, action).
        batches: a sample of the batches' (size, seconds).
    """

    predictions: Counter[tuple[str, int]] = field(default_factory=Counter)
    batches: Sampled[tuple[int, float]] = field(default_factory=Sampled)


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
