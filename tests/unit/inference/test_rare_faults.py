"""Faults that only the simulation has found, each by itself."""

from __future__ import annotations

import asyncio

from deployments.inference.authority.rows import copy_row
from deployments.inference.protocol import Key
from tests.unit.inference.authorities import TABLE
from tests.unit.inference.lineage import Outcome
from tests.unit.inference.virtual_time import virtual_time
from tests.unit.inference.world import Replica, World, gather, settings

KEY = Key("run", "300839359")


@virtual_time
async def test_a_replica_that_is_closed_answers_nothing_after_its_last_commit():
    for seed in range(20):
        world = await World(seed=seed).start(2)
        first, second = world.replicas

        async def go_on_asking() -> None:
            for n in range(40):
                world.ask(first, Key("run", ("300839359", "265580972")[n % 2]))
                await asyncio.sleep(0.0005)

        asking = asyncio.create_task(go_on_asking())
        await asyncio.sleep(0.005)
        await first.leases.close()
        await asking
        for junction in ("300839359", "265580972"):
            last = await world.predict(second, Key("run", junction))
            assert last.outcome is Outcome.ANSWERED
        world.history.check()


@virtual_time
async def test_a_step_answered_from_a_receipt_is_durable_too():
    for seed in range(20):
        world = await World(settings(strict=True, durable=True), seed=seed).start(3)
        world.store.latency_s = (0.05, 0.05)

        async def copy_is_there(replica: Replica) -> bool:
            answer = await replica.stepper.submit(KEY, [1.0], request_id="once")
            assert answer.step == 1
            return copy_row(KEY) in world.store.tables[TABLE]

        assert all(await gather(*(copy_is_there(replica) for replica in world.replicas)))
