"""The state actor: what Ray records of its calls, and what it publishes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ray
from ray.serve._private.logging_utils import get_serve_logs_dir
from ray.util import metrics

from deployments.stateful.protocol import Key
from deployments.stateful.ray.actor import ActorMetrics, StateActor, serve_logs_folder
from tests.unit.stateful.authorities import OPTIONS, FaultyStore, join, make_authority, next_term
from tests.unit.stateful.simulation.scenario import simulated, until


def test_ray_keeps_no_record_of_polls():
    methods = ray.remote(StateActor).__ray_metadata__.method_meta
    assert "poll" in methods.methods
    assert methods.enable_task_events == {"poll": False}


@simulated
async def test_each_term_publishes_its_states_and_the_time_that_it_took_to_act(monkeypatch):
    values: dict[str, float] = {}

    def gauge(name: str, description: str, tag_keys: tuple[str, ...]) -> Any:
        class Gauge:
            def set(self, value: float, tags: dict[str, str]) -> None:
                assert set(tags) == set(tag_keys)
                values[name] = value

        return Gauge()

    monkeypatch.setattr(metrics, "Gauge", gauge)
    store = FaultyStore()
    first = await make_authority(store=store)
    published = ActorMetrics(first, "inference", "0")
    published.publish()
    assert values == {
        "hidden_states": 0,
        "hidden_states_allowed": OPTIONS.max_states,
        "hidden_states_life": 0,
        "hidden_states_recovery_ms": 0,
    }
    await first.checkout(await join(first, "a"), Key("run", "300839359"))
    published.publish()
    assert (values["hidden_states"], values["hidden_states_life"]) == (1, 1)
    first.stop()

    second = await next_term(store)
    await join(second, "a")
    await until(lambda: second.recovery_s > 0)
    ActorMetrics(second, "inference", "0").publish()
    assert values["hidden_states_life"] == 2
    assert values["hidden_states_recovery_ms"] == second.recovery_s * 1000


def test_the_log_of_a_state_actor_is_beside_those_of_serve(monkeypatch):
    names = {"get_temp_dir": lambda: "/ray", "get_session_name": lambda: "session_1"}
    node = SimpleNamespace(get_logs_dir_path=lambda: "/ray/session_1/logs")
    monkeypatch.setattr(ray._private.worker, "_global_node", node)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(**names))
    assert serve_logs_folder() == Path(get_serve_logs_dir())
