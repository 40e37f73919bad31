"""What an application leaves behind when it is removed."""

from __future__ import annotations

import httpx

from load_tests.harness.system import System, application
from models.networks.shipped import JUNCTIONS
from tests.cluster.gateway.conftest import wait_for


def step(system: System, run: str) -> int:
    """Make a step, and return its number."""
    response = httpx.post(
        f"{system.url}/removed/predict_action",
        json={"junction_id": next(iter(JUNCTIONS)), "obs_data": [0.5]},
        headers={"X-Simulation-Run": run},
        timeout=10,
    )
    return int(response.raise_for_status().headers["X-Hidden-State-Step"])


def test_its_state_actor_ends_and_the_next_one_has_its_states(system, run_id):
    removed, others = application("removed", "/removed", lease_s=0.5), set(system.state_actors())
    system.deploy(removed)
    (actor,) = set(system.state_actors()) - others
    assert [step(system, run_id) for _ in range(2)] == [1, 2]
    system.remove("removed")
    wait_for(lambda: not actor.is_running(), timeout_s=90)

    system.deploy(removed)
    assert step(system, run_id) == 3
    system.remove("removed")
