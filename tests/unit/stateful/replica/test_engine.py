from __future__ import annotations

import asyncio

from deployments.stateful.layout import shard_of
from deployments.stateful.protocol import Key
from tests.unit.stateful.models import ENTITIES
from tests.unit.stateful.virtual_time import virtual_time
from tests.unit.stateful.world import World, gather

KEYS = [Key(run, junction) for run in ("a", "b", "c") for junction in ENTITIES]


@virtual_time
async def test_states_live_with_the_authority_of_their_key():
    world = await World(n_shards=3).start(2)
    for key in KEYS:
        await world.predict(world.replicas[0], key)
    await asyncio.sleep(0.05)
    for number, shard in enumerate(world.shards):
        expected = sum(shard_of(key, 3) == number for key in KEYS)
        assert shard.authority.n_states == expected
    world.history.check()


@virtual_time
async def test_a_reset_reaches_every_shard():
    world = await World(n_shards=3).start(2)
    for key in KEYS:
        await world.predict(world.replicas[0], key)
    await world.reset(world.replicas[1], "a")
    for key in KEYS:
        assert (await world.predict(world.replicas[1], key)).step == (1 if key.run == "a" else 2)


@virtual_time
async def test_one_dead_authority_stops_nobody_elses_states():
    world = await World(n_shards=3).start(2)
    for key in KEYS:
        await world.predict(world.replicas[0], key)
    dead = shard_of(KEYS[0], 3)
    world.shards[dead].stop()
    await asyncio.sleep(1)
    assert not world.replicas[1].engine.connected
    alive = [key for key in KEYS if shard_of(key, 3) != dead]
    answered = await gather(*(world.predict(world.replicas[1], key) for key in alive))
    assert [asked.step for asked in answered] == [2] * len(alive)


@virtual_time
async def test_counts_are_summed():
    world = await World(n_shards=3).start()
    for key in KEYS:
        await world.predict(world.replicas[0], key)
    await asyncio.sleep(0.05)
    counts = world.replicas[0].engine.counts
    assert counts.checkouts == counts.states_committed == len(KEYS)
    assert counts.sessions == 3
    assert 0 < counts.commit_lag_s < 0.05
