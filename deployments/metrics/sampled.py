"""Counts without Ray: bounded samples, and labels of junctions."""

from __future__ import annotations

import random
from typing import Generic, TypeVar

from models.networks.network import Network

Value = TypeVar("Value")

SAMPLE = 20  # values a second: enough for a histogram, and cheap to publish


class Sampled(Generic[Value]):
    """A uniform sample of the observed values.

    A reservoir: algorithm R of Vitter 1985, "Random Sampling with a Reservoir". Observing a value
    takes about 0.25 µs; in a histogram of Ray it takes several times as long.

    Args:
        size: of the sample, 1 or more.
        source: of random numbers.
    """

    def __init__(self, size: int = SAMPLE, source: random.Random | None = None) -> None:
        self._size = size
        self._random = (source or random.Random()).random
        self._seen = 0
        self._kept: list[Value] = []

    def observe(self, value: Value) -> None:
        """Observe a value, which may replace another in the sample."""
        self._seen += 1
        if self._seen <= self._size:
            self._kept.append(value)
            return
        place = int(self._random() * self._seen)
        if place < self._size:
            self._kept[place] = value

    def take(self) -> list[Value]:
        """Return the sample of all values since the last call."""
        kept, self._kept, self._seen = self._kept, [], 0
        return kept


MAX_LABELLED = 500


def junction_labels(network: Network) -> tuple[str, ...]:
    """Return the label of each agent: its junction, or one for all if there are too many.

    Each label is a time series, and cities have thousands of junctions.
    """
    if network.n_agents <= MAX_LABELLED:
        return network.ids
    return ("all",) * network.n_agents
