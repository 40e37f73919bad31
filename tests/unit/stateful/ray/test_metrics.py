"""What a state actor tells of itself."""

from __future__ import annotations

from typing import Any

import pytest
from ray.util import metrics

from deployments.stateful.protocol import Key
from deployments.stateful.ray.actor import ActorMetrics
from tests.unit.stateful.authorities import join, make_authority, restart
from tests.unit.stateful.memory_store import MemoryStore
from tests.unit.stateful.options import FAST
from tests.unit.stateful.virtual_time import virtual_time
from tests.unit.stateful.world import until


class Gauges:
    """Stands for Ray's, and keeps their last values by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.values: dict[str, float] = {}
        monkeypatch.setattr(metrics, "Gauge", self._make)

    def _make(self, name: str, description: str, tag_keys: tuple[str, ...]) -> Any:
        values = self.values

        class Gauge:
            def set(self, value: float, tags: dict[str, str]) -> None:
                assert set(tags) == set(tag_keys)
                values[name] = value

        return Gauge()


@virtual_time
async def test_each_life_is_told_with_its_states_and_the_time_it_took_to_act(monkeypatch):
    gauges, store = Gauges(monkeypatch), MemoryStore()
    first = await make_authority(store=store)
    told = ActorMetrics(first, "inference", "0")
    told.publish()
    assert gauges.values == {
        "hidden_states": 0,
        "hidden_states_allowed": FAST.max_states,
        "hidden_states_life": 0,
        "hidden_states_recovery_ms": 0,
    }
    session = await join(first, "a")
    await first.checkout(session, Key("run", "300839359"))
    told.publish()
    assert (gauges.values["hidden_states"], gauges.values["hidden_states_life"]) == (1, 1)
    first.stop()

    second = await restart(store)
    await join(second, "a")
    await until(lambda: second.recovery_s > 0)
    ActorMetrics(second, "inference", "0").publish()
    assert gauges.values["hidden_states_life"] == 2
    assert gauges.values["hidden_states_recovery_ms"] == second.recovery_s * 1000
    second.stop()
