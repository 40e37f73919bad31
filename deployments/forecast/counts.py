"""What a forecast service counts on its hot path, for metrics that are published elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from deployments.metrics.sampled import Sampled

Inputs = TypeVar("Inputs")


class ForecastCounts(Generic[Inputs]):
    """Totals since the start, and a sample of the batches.

    Args:
        drift: of a sample of inputs, by column the share of values outside the training range.
    """

    def __init__(self, drift: Callable[[list[Inputs]], Mapping[str, float]]) -> None:
        self._drift = drift
        self.predictions: Counter[str] = Counter()
        self._batches: Sampled[tuple[int, float, Inputs]] = Sampled()

    def batch(self, size: int, seconds: float, inputs: Inputs) -> None:
        """Note a batch that has run."""
        self._batches.observe((size, seconds, inputs))

    def take_batches(self) -> tuple[list[tuple[int, float]], Mapping[str, float]]:
        """Return the sample since the last call, (size, seconds) each, and its drift."""
        sample = self._batches.take()
        inputs = [inputs for _, _, inputs in sample]
        batches = [(size, seconds) for size, seconds, _ in sample]
        return batches, self._drift(inputs) if inputs else {}
