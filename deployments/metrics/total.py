"""A Ray counter that follows totals counted elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ray.serve import metrics


class Total:
    """To be created in the replica's constructor, like every metric of Serve.

    Args:
        tags: names for the values in the totals' keys: tuples, or for one tag plain values.
    """

    def __init__(self, name: str, description: str, tags: tuple[str, ...]) -> None:
        self._counter = metrics.Counter(name, description, tag_keys=tags)
        self._tags = tags
        self._published: Counter[Any] = Counter()

    def publish(self, totals: Mapping[Any, int]) -> None:
        """Add what has come since the last call."""
        for key, total in list(totals.items()):
            new = total - self._published[key]
            if new:
                values = key if isinstance(key, tuple) else (key,)
                named = zip(self._tags, map(str, values), strict=True)
                self._counter.inc(new, dict(named))
                self._published[key] = total
