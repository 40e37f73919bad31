"""What a forecast service counts on its hot path, for metrics that are published elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

Inputs = TypeVar("Inputs")

SAMPLE = 20  # batches per period: recording every batch would cost more than the batch


class ForecastCounts(Generic[Inputs]):
    """Totals since the start, and a sample of the newest batches.

    Args:
        drift: of a sample of inputs, by column the share of values outside the training range.
    """

    def __init__(self, drift: Callable[[list[Inputs]], Mapping[str, float]]) -> None:
        self._drift = drift
        self.predictions: Counter[str] = Counter()
        self._batches: list[tuple[int, float]] = []
        self._inputs: list[Inputs] = []

    def batch(self, size: int, seconds: float, inputs: Inputs) -> None:
        """Note a batch that has run."""
        if len(self._batches) < SAMPLE:
            self._batches.append((size, seconds))
            self._inputs.append(inputs)

    def take_batches(self) -> tuple[list[tuple[int, float]], Mapping[str, float]]:
        """The sample since the last call, (size, seconds) each, and its drift."""
        batches, inputs = self._batches, self._inputs
        self._batches, self._inputs = [], []
        return batches, self._drift(inputs) if inputs else {}
