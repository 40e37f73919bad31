"""Commits that hang: answers wait from the loss bound on, and none that is lost was given."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from deployments.stateful.protocol import AuthorityUnavailableError, Key, OutcomeUnknownError
from deployments.stateful.replica import commits
from tests.unit.stateful.authorities import now
from tests.unit.stateful.lineage import Asked, Outcome
from tests.unit.stateful.virtual_time import virtual_time
from tests.unit.stateful.world import FAST, Wire, World, gather, settings, until

KEY, OTHER = Key("run", "300839359"), Key("run", "265580972")
LONG = settings(lease_s=1.0)


class HangingWire(Wire):
    """Its commits do not arrive, or their answers do not, and nobody is told before it breaks."""

    hangs = False
    answers_hang = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.breaks = asyncio.Event()

    async def commit(self, *arguments: Any) -> list[Key]:
        if self.hangs:
            await self._hang()
        refused = await super().commit(*arguments)
        if self.answers_hang:
            await self._hang()
        return refused

    async def _hang(self) -> None:
        await self.breaks.wait()
        raise AuthorityUnavailableError("the connection is lost")


async def hanging(world: World) -> HangingWire:
    await world.start(2)
    replica = world.replicas[0]
    (shard,) = replica.shards
    wire = HangingWire(world, world.shards[0], replica)
    shard._authority = shard._session._authority = shard._commits._authority = wire
    await world.predict(replica, KEY)
    await asyncio.sleep(0.1)
    return wire


@virtual_time
async def test_answers_stop_at_the_loss_bound_and_fail_when_nobody_confirms_them_in_time():
    world = World(settings=LONG)
    wire = await hanging(world)
    wire.hangs = True
    began = now()
    asked: list[Asked] = []
    for _ in range(50):
        asked.append(world.ask(world.replicas[0], KEY)[0])
        await asyncio.sleep(0.001)
    at_once = [each for each in asked if each.outcome is Outcome.ANSWERED]
    assert at_once
    assert all((each.answered or 99) - began <= LONG.loss_bound_s for each in at_once)
    waiting = asked[len(at_once) :]
    assert all(each.outcome is Outcome.PENDING for each in waiting)
    await asyncio.sleep(LONG.commit_timeout_s - 0.1)
    assert all(each.outcome is Outcome.PENDING for each in waiting)
    await asyncio.sleep(0.1)
    assert all(each.outcome is Outcome.UNKNOWN for each in waiting)


@virtual_time
@pytest.mark.parametrize("part", ["hangs", "answers_hang"])
async def test_the_age_of_the_oldest_step_that_is_not_acknowledged_rises_until_it_is(part):
    world = World(settings=LONG)
    wire = await hanging(world)
    leases = world.replicas[0].engine
    assert leases.uncommitted_s == 0
    setattr(wire, part, True)
    for _ in range(2):
        world.ask(world.replicas[0], KEY)
        await asyncio.sleep(0.2)
    assert leases.uncommitted_s == pytest.approx(0.4, abs=0.02)
    setattr(wire, part, False)
    wire.breaks.set()
    await until(lambda: leases.uncommitted_s == 0)


@virtual_time
async def test_an_answer_that_was_waited_for_too_long_has_an_unknown_outcome():
    world = World(settings=settings(lease_s=1.0, durability="actor"))
    wire = await hanging(world)
    wire.hangs = True
    answer = world.replicas[0].batcher.submit(KEY, 1)
    with pytest.raises(OutcomeUnknownError):
        await answer


@pytest.mark.parametrize("hang", ["hangs", "answers_hang"])
@virtual_time
async def test_a_disturbance_that_ends_in_time_costs_nothing_but_waiting(hang):
    world = World(settings=LONG)
    wire = await hanging(world)
    setattr(wire, hang, True)
    asked = []
    for n in range(40):
        asked.append(world.ask(world.replicas[0], (KEY, OTHER)[n % 2])[1])
        await asyncio.sleep(0.001)
    setattr(wire, hang, False)
    wire.breaks.set()
    await gather(*asked)
    assert world.replicas[0].engine.counts.states_refused == 0
    assert (await world.predict(world.replicas[1], KEY)).step == 22
    world.history.check()


@pytest.mark.parametrize("hang", ["hangs", "answers_hang"])
@virtual_time
async def test_of_what_a_dead_replica_could_not_commit_only_the_loss_bound_was_answered(hang):
    world = World(settings=settings(lease_s=1.0))
    wire = await hanging(world)
    setattr(wire, hang, True)
    replica, other = world.replicas
    asked = []
    for _ in range(60):
        asked.append(world.ask(replica, KEY)[0])
        await asyncio.sleep(0.001)
    died = now()
    world.kill_replica(replica)
    answered = [each for each in asked if each.answered is not None]
    assert (await world.predict(other, KEY)).outcome is Outcome.ANSWERED
    assert answered[-1].answered is not None
    assert died - answered[-1].answered > FAST.loss_bound_s, "it went on answering"
    lost = [
        each for each in answered if (each.answered or 0) - answered[0].sent <= FAST.loss_bound_s
    ]
    world.history.check(lambda each: each in lost)


@virtual_time
async def test_in_strict_mode_a_dead_replica_has_answered_nothing_that_it_could_not_commit():
    world = World(settings=settings(lease_s=1.0, durability="actor"))
    wire = await hanging(world)
    wire.hangs = True
    replica, other = world.replicas
    asked = [world.ask(replica, KEY)[0] for _ in range(20)]
    await asyncio.sleep(0.1)
    world.kill_replica(replica)
    assert all(each.answered is None for each in asked)
    assert (await world.predict(other, KEY)).step == 2
    world.history.check()


@virtual_time
async def test_more_states_than_one_commit_takes_go_in_several_at_once(monkeypatch):
    monkeypatch.setattr(commits, "STATES_PER_COMMIT", 10)
    world = await World(settings=settings()).start()
    replica = world.replicas[0]
    keys = [Key(f"run-{n}", "300839359") for n in range(35)]
    await gather(*(world.predict(replica, key) for key in keys))
    await until(lambda: replica.engine.counts.states_committed == 35)
    before = replica.engine.counts.commits
    stepped = now()
    await gather(*(world.predict(replica, key) for key in keys))
    await until(lambda: replica.engine.counts.states_committed == 70)
    assert replica.engine.counts.commits - before == 4
    assert now() - stepped < 0.02
