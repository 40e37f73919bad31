"""Stand-ins for Ray's metrics that remember what they were told."""

from collections import defaultdict
from typing import Any

import pytest
from ray.serve import metrics


class RecordedMetrics:
    """What was counted and observed, by metric name and tag values."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counted: defaultdict[Any, float] = defaultdict(float)
        self.observed: list[tuple[Any, float]] = []
        for kind in ("Counter", "Histogram", "Gauge"):
            monkeypatch.setattr(metrics, kind, self._make)

    def _make(self, name: str, *_: object, tag_keys: tuple[str, ...] = (), **__: object) -> Any:
        return _Metric(self, name, tag_keys)


class _Metric:
    def __init__(self, recorded: RecordedMetrics, name: str, tag_keys: tuple[str, ...]) -> None:
        self._recorded, self._name, self._tag_keys = recorded, name, tag_keys
        self._defaults: dict[str, str] = {}

    def set_default_tags(self, tags: dict[str, str]) -> None:
        self._defaults = tags

    def inc(self, value: float, tags: dict[str, str] | None = None) -> None:
        if value <= 0:
            raise ValueError(f"value must be >0, got {value}")  # as Ray does
        self._record(value, tags)

    def _record(self, value: float, tags: dict[str, str] | None) -> None:
        """Take what Ray's ``inc`` refuses."""
        self._recorded.counted[self._key(tags)] += value

    def observe(self, value: float, tags: dict[str, str] | None = None) -> None:
        self._recorded.observed.append((self._key(tags), value))

    set = observe

    def _key(self, tags: dict[str, str] | None) -> tuple[str, ...]:
        values = self._defaults | (tags or {})
        assert set(values) == set(self._tag_keys), "exactly the declared tags"
        assert all(isinstance(value, str) for value in values.values())
        return self._name, *(values[key] for key in self._tag_keys)
