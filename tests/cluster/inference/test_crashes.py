"""kill -9 of replicas and of the state actor under load; a full restart of Ray."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import httpx
import psutil
import pytest

from deployments.inference.authority.rows import key_of, unpack_copy
from deployments.inference.layout import table_of
from deployments.store import open_store
from testbed.system import System, application, make_instance
from tests.cluster.conftest import Weights
from tests.cluster.inference.load import (
    Answer,
    Load,
    assert_follows_reference,
    assert_is_serial_history,
)
from tests.reference import JUNCTIONS

# States committed at most 10 ms before a kill may be lost; the rest is for two busy cores.
LOSS_WINDOW_S = 0.25


def state_actors(system: System) -> list[psutil.Process]:
    return system.processes("ray::HiddenStates")


@pytest.mark.parametrize("name", ["inference", "many"])
async def test_a_killed_replica_costs_no_more_than_the_last_uncommitted_steps(
    system: System, weights: Weights, run_id: str, name: str
) -> None:
    prefix, replicas = ("", 1) if name == "inference" else ("/many", 3)
    async with Load(system.url + prefix, f"{run_id}.{name}", n_clients=6) as load:
        await load.more(300)
        killed = time.monotonic()
        system.kill(system.replicas(name)[0])
        await load.until(lambda: len(system.replicas(name)) == replicas)
        await load.more(300)
    survivors: dict[str, dict[int, Answer]] = defaultdict(dict)
    for answer in sorted(load.answers, key=lambda a: a.received):
        lost = survivors[answer.junction].get(answer.step)
        if lost is not None:  # answered, lost, and answered again
            assert killed - LOSS_WINDOW_S < lost.received < killed + LOSS_WINDOW_S
        survivors[answer.junction][answer.step] = answer
    for steps in survivors.values():
        if set(steps) == set(range(1, max(steps) + 1)):
            assert_follows_reference([steps[step] for step in sorted(steps)], weights)
    missing = sum(max(steps) - len(steps) for steps in survivors.values())
    assert missing <= len(load.failures)


async def test_in_strict_mode_a_killed_replica_loses_no_answered_step(
    system: System, weights: Weights, run_id: str
) -> None:
    async with Load(system.url + "/strict", run_id, n_clients=6) as load:
        for _ in range(2):
            await load.more(200)
            system.kill(system.replicas("strict")[0])
            await load.until(lambda: len(system.replicas("strict")) == 2)
        await load.more(200)
    assert_is_serial_history(load.answers, weights, allowed_gaps=len(load.failures))


@pytest.mark.parametrize("prefix", ["", "/many", "/strict"])
async def test_killed_state_actors_lose_nothing_and_come_back_by_themselves(
    system: System, weights: Weights, run_id: str, prefix: str
) -> None:
    async with Load(system.url + prefix, run_id + prefix.replace("/", "."), n_clients=6) as load:
        await load.more(200)
        before = state_actors(system)
        for actor in before:
            system.kill(actor)
        await load.until(lambda: len(state_actors(system)) == len(before))
        await load.more(200)
    # On a busy machine the actor may be away for longer than a request waits: refused, not
    # stepped; or than an answer waits for its commit: that step may be part of the history.
    assert all(what.startswith("503") for _, what in load.failures), load.failures[:5]
    unknown = [what for _, what in load.failures if "outcome_unknown" in what]
    assert_is_serial_history(load.answers, weights, allowed_gaps=len(unknown))


async def test_states_without_an_owner_survive_the_state_actor(system: System, run_id: str) -> None:
    """Kill the actor after a scale-down has given it states that only the store backs up."""
    async with Load(system.url + "/many", run_id, n_clients=6) as load:
        await load.more(100)
    await asyncio.to_thread(system.deploy, application("many", "/many", replicas=1))
    await load.until(lambda: len(system.replicas("many")) == 1)
    for actor in state_actors(system):
        system.kill(actor)
    last = dict.fromkeys(JUNCTIONS, 0)
    for answer in load.answers:
        last[answer.junction] = max(last[answer.junction], answer.step)
    after = Load(system.url + "/many", run_id, n_clients=0)
    async with after:
        for junction, step in last.items():
            answer = await after.predict_until_answered(junction, (0.1,))
            assert answer.step == step + 1
    await asyncio.to_thread(system.deploy, application("many", "/many", replicas=3))


def test_a_full_restart_continues_from_the_copy_if_the_configuration_says_so(
    tmp_path: Path, policy_file: Path
) -> None:
    temp_dir = Path(tempfile.mkdtemp(prefix="gw-", dir="/tmp"))
    instance = make_instance(tmp_path, temp_dir, MAPPO_AGENT_PATH=str(policy_file))
    system = System(instance)
    body = {"junction_id": JUNCTIONS[2], "obs_data": [1.0, 0.5]}

    def step(prefix: str) -> int:
        answer = httpx.post(f"{system.url}{prefix}/predict_action", json=body, timeout=10)
        return int(answer.headers["x-hidden-state-step"])

    async def saved_steps(app: str) -> list[int]:
        store = open_store(f"sqlite:///{tmp_path / 'greenwave.db'}")
        try:
            rows = [row async for row in store.scan(table_of(app))]
            copies = [unpack_copy(value, stamp=None) for row, value in rows if key_of(row)]
            return [copy.version.step for copy in copies if copy is not None]
        finally:
            await store.close()

    try:
        instance.start()
        system.deploy(
            application("restored", "/restored", restore_after_restart=True),
            application("forgotten", "/forgotten", restore_after_restart=False),
        )
        for prefix in ("/restored", "/forgotten"):
            assert [step(prefix) for _ in range(3)] == [1, 2, 3]
        deadline = time.monotonic() + 20
        while any(asyncio.run(saved_steps(app)) != [3] for app in ("restored", "forgotten")):
            assert time.monotonic() < deadline, "the newest state was not saved"
            time.sleep(0.1)
        system.kill_everything()
        instance.stop()
        instance.start()
        system.deploy()
        assert (step("/restored"), step("/forgotten")) == (4, 1)
    finally:
        instance.stop()
        shutil.rmtree(temp_dir, ignore_errors=True)
