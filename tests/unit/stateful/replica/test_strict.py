"""Strict mode: an answer only after the commit; no commit, no answer and no step."""

from __future__ import annotations

import asyncio

import pytest

from deployments.stateful.protocol import Key
from tests.unit.stateful.lineage import Outcome
from tests.unit.stateful.models import ENTITIES, MODEL
from tests.unit.stateful.virtual_time import virtual_time
from tests.unit.stateful.world import Network, World, gather, settings

KEY = Key("run", ENTITIES[0])
STRICT = settings(durability="actor")


@virtual_time
async def test_an_answer_waits_for_its_commit():
    world = await World(settings=STRICT).start()
    await world.predict(world.replicas[0], KEY)
    world.network.latency_s = (0.02, 0.02)
    asked = await world.predict(world.replicas[0], KEY)
    assert asked.answered is not None
    assert asked.answered - asked.sent == pytest.approx(0.04, abs=0.005)


@virtual_time
async def test_steps_that_wait_for_one_commit_go_out_together_and_in_order():
    world = await World(settings=STRICT, a_model=MODEL).start()
    replica = world.replicas[0]
    wanted = range(64)
    decisions = await gather(*(replica.batcher.submit(KEY, value) for value in wanted))
    MODEL.assert_replays(KEY, list(zip(wanted, decisions, strict=True)))
    assert replica.engine.counts.commits <= 3


@pytest.mark.parametrize("wait_s", [0.0, 0.0001, 0.0005, 0.001])
@virtual_time
async def test_a_kill_right_after_the_answer_loses_nothing(wait_s):
    world = await World(settings=STRICT).start(2)
    first, second = world.replicas
    for n in range(1, 4):
        assert (await world.predict(first, KEY)).step == n
    await asyncio.sleep(wait_s)
    world.kill_replica(first)
    assert (await world.predict(second, KEY)).step == 4
    world.history.check()


@virtual_time
async def test_a_refused_commit_fails_its_requests_and_leaves_no_step():
    world = await World(settings=STRICT).start(2)
    paused, other = world.replicas
    await world.predict(paused, KEY)
    paused.pause()
    lost, answer = world.ask(paused, KEY)
    await asyncio.sleep(0)
    assert (await world.predict(other, KEY)).step == 2
    paused.resume()
    await asyncio.wait([answer], timeout=5)
    assert answer.exception() is not None
    lost.outcome = Outcome.FAILED
    assert (await world.predict(paused, KEY)).step == 3
    world.history.check()


@virtual_time
async def test_an_authority_that_restarts_acknowledges_what_its_owners_claim():
    world = await World(settings=STRICT, network=Network(latency_s=(0.001, 0.001))).start()
    replica = world.replicas[0]
    await world.predict(replica, KEY)
    asked = asyncio.create_task(world.predict(replica, KEY))
    await asyncio.sleep(0.0005)
    await world.kill_authority()
    assert (await asked).step == 2
    assert (await world.predict(replica, KEY)).step == 3
    world.history.check()
