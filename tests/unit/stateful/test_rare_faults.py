"""Faults that only the simulation has found, each by itself."""

from __future__ import annotations

import asyncio

from deployments.stateful.authority.snapshots import snapshot_row
from deployments.stateful.protocol import Key
from tests.unit.stateful.authorities import TABLE
from tests.unit.stateful.lineage import Outcome
from tests.unit.stateful.virtual_time import virtual_time
from tests.unit.stateful.world import Replica, World, gather, settings

KEY = Key("run", "300839359")


@virtual_time
async def test_a_replica_that_is_closed_answers_nothing_after_its_last_commit():
    for seed in range(20):
        await _close_under_load(seed)


async def _close_under_load(seed: int) -> None:
    world = await World(seed=seed).start(2)
    first, second = world.replicas
    keys = [KEY, Key("run", "265580972")]

    async def go_on_asking() -> None:
        for n in range(40):
            world.ask(first, keys[n % 2])
            await asyncio.sleep(0.0005)

    asking = asyncio.create_task(go_on_asking())
    await asyncio.sleep(0.005)
    await first.engine.close()
    await asking
    for key in keys:
        assert (await world.predict(second, key)).outcome is Outcome.ANSWERED
    world.history.check()


@virtual_time
async def test_a_step_answered_from_a_receipt_is_durable_too():
    for seed in range(20):
        world = await World(settings(durability="store"), seed=seed).start(3)
        world.store.latency_s = (0.05, 0.05)
        copies = await gather(*(_repeat(world, replica) for replica in world.replicas))
        assert all(copies)


async def _repeat(world: World, replica: Replica) -> bool:
    """Return whether the copy is in the store when the one step is answered."""
    answer = await replica.batcher.submit(KEY, 1, request_id="once")
    assert answer.step == 1
    return snapshot_row(KEY) in world.store.tables[TABLE]
