"""Replicas and state actors that are killed or stopped under load: no answered step is lost."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import psutil
import pytest

from load_tests.chaos.history import Prediction
from load_tests.harness.system import System, application
from tests.cluster.inference.load import Load, assert_is_serial

pytestmark = pytest.mark.usefixtures("several")

OTHERS_S, OWN_S, SLACK_S = 1.5, 3.0, 1.0  # the tests have no machine of their own


@pytest.mark.parametrize(
    ("name", "replicas"), [("inference", 1), ("many", 3), ("durable", 2)], ids=str
)
async def test_a_killed_replica_loses_nothing(system, weights, run_id, name, replicas):
    async with Load(url_of(system, name), f"{run_id}.{name}", n_clients=6) as load:
        for _ in range(2):
            await load.more(200)
            system.kill(system.replicas(name)[0])
            await load.until(lambda: len(system.replicas(name)) == replicas)
        await load.more(200)
    assert_is_serial(load.history, weights)


@pytest.mark.parametrize("name", ["inference", "many", "durable"])
async def test_killed_state_actors_lose_nothing_and_only_durable_responses_wait(
    system, weights, run_id, name
):
    async with Load(url_of(system, name), f"{run_id}.{name}", n_clients=6) as load:
        await load.more(200)
        before = system.state_actors(name)
        for actor in before:
            system.kill(actor)
        await load.until(lambda: len(set(system.state_actors(name)) - set(before)) == len(before))
        await load.more(200)
    if name != "durable":
        assert load.failures == []
        assert load.history.away_s() < SLACK_S
    assert_is_serial(load.history, weights)


@pytest.mark.parametrize("name", ["many", "durable"])
async def test_all_replicas_and_the_state_actors_killed_at_once_lose_nothing(
    system, weights, run_id, name
):
    n_replicas = len(system.replicas(name))
    async with Load(url_of(system, name), f"{run_id}.{name}", n_clients=6) as load:
        for _ in range(2):
            await load.more(300)
            for process in (*system.replicas(name), *system.state_actors(name)):
                system.kill(process)
            await load.until(lambda: len(system.replicas(name)) == n_replicas)
        await load.more(300)
    assert_is_serial(load.history, weights)


@pytest.fixture
def two(system: System) -> Iterator[str]:
    """Serve two replicas, and return their URL."""
    system.deploy(application("two", "/two", replicas=2))
    yield url_of(system, "two")
    system.remove("two")


async def test_a_stopped_replica_is_killed_and_its_runs_go_on(system, weights, run_id, two):
    """Stop it again and again: a transaction that it had begun keeps the other one waiting."""
    async with contextlib.AsyncExitStack() as stack:
        runs = [Load(two, f"{run_id}.{n}", n_clients=2, seed=n) for n in range(8)]
        for load in runs:
            await stack.enter_async_context(load)
        for _ in range(3):
            await asyncio.gather(*(load.more(50) for load in runs))
            victim, other = system.replicas("two")
            victim.send_signal(signal.SIGSTOP)
            try:
                await runs[0].until(partial(is_gone, victim), timeout_s=OWN_S + SLACK_S)
            finally:
                with contextlib.suppress(psutil.NoSuchProcess):
                    victim.send_signal(signal.SIGCONT)
            assert other.is_running()
            await runs[0].until(lambda: len(system.replicas("two")) == 2)
        await asyncio.gather(*(load.more(50) for load in runs))
    longest = sorted(longest_s(load.answers) for load in runs)
    assert longest[-1] < OWN_S + SLACK_S
    assert longest[0] < OTHERS_S + SLACK_S, "the runs of the other replica"
    for load in runs:
        assert_is_serial(load.history, weights)


async def test_a_stopped_state_actor_is_not_noticed(system, weights, run_id, two):
    async with Load(two, run_id, n_clients=4) as load:
        await load.more(100)
        (actor,) = system.state_actors("two")
        actor.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(5)
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                actor.send_signal(signal.SIGCONT)
        await load.more(100)
    assert load.failures == []
    assert load.history.away_s() < OTHERS_S + SLACK_S
    assert_is_serial(load.history, weights)


def url_of(system: System, name: str) -> str:
    return system.url if name == "inference" else f"{system.url}/{name}"


def is_gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def longest_s(answers: list[Prediction]) -> float:
    """Return the longest time without an answer."""
    times = sorted(each.done for each in answers)
    return max(later - earlier for earlier, later in pairwise(times))
