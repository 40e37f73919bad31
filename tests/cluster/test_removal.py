"""What an application leaves behind when it is removed, and when it comes back otherwise."""

from collections.abc import Collection
from functools import partial

import httpx
import psutil
import pytest

from load_tests.harness.system import System, application
from models.networks.shipped import JUNCTIONS
from tests.support.waiting import until

RUNS = [f"run-{number}" for number in range(8)]


@pytest.mark.timeout(400)
def test_its_state_actor_ends_and_the_next_ones_have_its_states_also_in_more_shards(system):
    others = set(system.state_actors())
    deploy(system)
    assert [step(system, run) for run in RUNS * 2] == [1] * 8 + [2] * 8
    for shards in (1, 2, 1):
        actors = set(system.state_actors()) - others
        system.remove("removed")
        until(partial(have_ended, actors))
        deploy(system, shards)
    assert [step(system, run) for run in RUNS] == [3] * 8
    system.remove("removed")


def have_ended(processes: Collection[psutil.Process]) -> bool:
    return not any(each.is_running() for each in processes)


def deploy(system: System, shards: int = 1) -> None:
    system.deploy(application("removed", "/removed", shards=shards))


def step(system: System, run: str) -> int:
    """Make a step of a run, and return its number."""
    response = httpx.post(
        f"{system.url}/removed/predict_action",
        json={"junction_id": next(iter(JUNCTIONS)), "obs_data": [0.5]},
        headers={"X-Simulation-Run": run},
        timeout=60,
    )
    return int(response.raise_for_status().headers["X-Hidden-State-Step"])
