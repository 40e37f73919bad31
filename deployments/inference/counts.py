"""What one policy has done on a replica since the start, for the metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from deployments.metrics.sampled import Sampled
from models.policy.step import Floats, PolicyStep


class Batch(NamedTuple):
    """A batched step of B rows, from which the metrics work out what requests need not wait for.

    Attributes:
        seconds: it took.
        agents: B agent indices.
        inputs: (B, width).
        hidden: (B, 128), after the step; not finite where it was refused.
    """

    seconds: float
    policy: PolicyStep
    agents: list[int]
    inputs: Floats
    hidden: Floats


@dataclass
class StepCounts:
    """Counts of steps that are answered, but for the batches, which shadows have as well.

    Attributes:
        predictions: steps made, by (junction, action).
        batches: a sample.
        without_place: requests for a new state that were refused because of the cap.
        passed_on: steps that were not finite, and were left to the policy in service.
    """

    predictions: Counter[tuple[str, int]] = field(default_factory=Counter)
    batches: Sampled[Batch] = field(default_factory=Sampled)
    without_place: int = 0
    passed_on: int = 0
