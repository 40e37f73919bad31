"""kill -9 of replicas and of the state actor under load."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest

from load_tests.chaos.checker import Harm
from load_tests.harness.system import System, application
from tests.cluster.inference.load import Load, assert_is_serial, verdict_of
from tests.reference import JUNCTIONS

pytestmark = pytest.mark.usefixtures("several")

# States committed at most 10 ms before a kill may be lost; the rest is for two busy cores.
LOSS_WINDOW_S = 0.25


@pytest.mark.parametrize("name", ["inference", "many"])
async def test_a_killed_replica_costs_no_more_than_the_last_uncommitted_steps(
    system, weights, run_id, name
):
    prefix, replicas = ("", 1) if name == "inference" else ("/many", 3)
    async with Load(system.url + prefix, f"{run_id}.{name}", n_clients=6) as load:
        await load.more(300)
        killed = time.monotonic()
        system.kill(system.replicas(name)[0])
        await load.until(lambda: len(system.replicas(name)) == replicas)
        await load.more(300)
    verdict = verdict_of(load.history, weights, [killed])
    harmed = [str(each) for each in verdict.findings if each.harm is not Harm.LOST]
    assert harmed == []
    assert verdict.lost_s < LOSS_WINDOW_S


async def test_where_responses_wait_for_commits_a_killed_replica_loses_no_answered_step(
    system, weights, run_id
):
    async with Load(system.url + "/sync", run_id, n_clients=6) as load:
        for _ in range(2):
            await load.more(200)
            system.kill(system.replicas("sync")[0])
            await load.until(lambda: len(system.replicas("sync")) == 2)
        await load.more(200)
    assert_is_serial(load.history, weights)


@pytest.mark.parametrize("prefix", ["", "/many", "/sync"])
async def test_killed_state_actors_lose_nothing_and_restart(system, weights, run_id, prefix):
    async with Load(system.url + prefix, run_id + prefix.replace("/", "."), n_clients=6) as load:
        await load.more(200)
        before = system.state_actors()
        for actor in before:
            system.kill(actor)
        await load.until(lambda: len(system.state_actors()) == len(before))
        await load.more(200)
    # On a busy machine the actor may be away for longer than a request waits: refused, not
    # stepped; or than a response waits for its commit: that step may be part of the history.
    assert all(what.startswith("503") for what in load.failures), load.failures[:5]
    assert_is_serial(load.history, weights)


@pytest.fixture
def one_replica(system: System) -> Iterator[Callable[[], object]]:
    """Give a function that leaves ``many`` with one replica; after the test it has three again."""
    yield lambda: system.deploy(application("many", "/many", replicas=1))
    system.deploy(application("many", "/many", replicas=3))


async def test_states_without_an_owner_survive_the_state_actor(
    system, weights, run_id, one_replica
):
    """Kill the actor after a scale-down has given it states that only the store backs up."""
    async with Load(system.url + "/many", run_id, n_clients=6) as load:
        await load.more(100)
    await asyncio.to_thread(one_replica)
    await load.until(lambda: len(system.replicas("many")) == 1)
    for actor in system.state_actors():
        system.kill(actor)
    last = dict.fromkeys(JUNCTIONS, 0)
    for prediction in load.answers:
        last[prediction.key.junction] = max(last[prediction.key.junction], prediction.step)
    async with Load(system.url + "/many", run_id, n_clients=0, history=load.history) as after:
        for junction, step in last.items():
            prediction = await after.predict_until_answered(junction, (0.1,))
            assert prediction.step == step + 1
    assert_is_serial(load.history, weights)
