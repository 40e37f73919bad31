"""Bounded memory: idle runs expire, and new states are refused at the limit."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any, cast

import pytest

from deployments.stateful.protocol import Key, TooManyStatesError
from tests.support.states import DictStore
from tests.unit.stateful.authorities import join, keep, make_authority, options
from tests.unit.stateful.simulation.history import Outcome
from tests.unit.stateful.simulation.scenario import KEY, scenario, simulated, start, until
from tests.unit.stateful.simulation.times import KEEP_RELEASED_S, OPTIONS

ENTITY = KEY.entity


@scenario
async def test_an_idle_run_expires_and_a_used_one_does_not():
    cluster = await start(2, run_ttl_s=1.0)
    idle, quiet, busy = Key("idle", "1"), Key("used", "1"), Key("used", "2")
    for key in (idle, quiet):
        await cluster.step(cluster.replicas[0], key)
    for n in range(1, 20):
        assert (await cluster.step(cluster.replicas[n % 2], busy)).step == n
        await asyncio.sleep(0.2)
    assert cluster.actor().authority.n_states == 2
    assert not cluster.replicas[0].owns(idle)
    assert (await cluster.step(cluster.replicas[0], idle)).step == 1
    assert (await cluster.step(cluster.replicas[0], quiet)).step == 2


@scenario
async def test_a_run_that_is_used_while_it_expires_is_kept():
    cluster = await start(run_ttl_s=1.0, loss_bound_s=0.75)
    (replica,) = cluster.replicas
    await cluster.step(replica)
    await asyncio.sleep(1.25)  # its commit, which is a use, took 0.3 s
    assert (await cluster.step(replica)).step == 2  # its commit would follow the sweep
    await asyncio.sleep(0.4)
    assert replica.engine.counts.recalls == 1, "the run was about to expire"
    assert (await cluster.step(replica)).step == 3


@scenario
async def test_a_checkout_is_a_use_of_its_run():
    cluster = await start(2, run_ttl_s=1.0)
    owner, other = cluster.replicas
    await cluster.step(owner)
    await asyncio.sleep(0.9)
    cluster.faults.stall_replica(owner)
    waiting = cluster.send(other, KEY)  # until the lease of the owner has expired
    await until(lambda: waiting.outcome is Outcome.RESPONDED)
    assert waiting.step == 2


@scenario
async def test_many_runs_expire_together_without_a_stall():
    cluster = await start(run_ttl_s=1.0)
    (replica,) = cluster.replicas
    requests = [cluster.send(replica, Key(f"run-{n}", "1")) for n in range(200)]
    await until(lambda: all(each.outcome is Outcome.RESPONDED for each in requests))
    assert cluster.actor().authority.n_states == 200
    await asyncio.sleep(2)
    assert cluster.actor().authority.n_states == 0
    assert replica.engine.counts.sessions == 1, "the lease expired meanwhile"


@scenario
async def test_at_the_limit_new_states_are_refused_and_existing_ones_stepped():
    cluster = await start(2, max_states=3)
    first, second = cluster.replicas
    for n in range(3):
        await cluster.step(first, Key(f"run-{n}", "1"))
    refused = await cluster.step(second, KEY)
    assert refused.error.startswith("TooManyStatesError(3, ")
    assert [(await cluster.step(second, Key(f"run-{n}", "1"))).step for n in range(3)] == [2, 2, 2]
    await cluster.clear(first, "run-0")
    assert (await cluster.step(second, KEY)).step == 1


@pytest.mark.parametrize(
    ("ttl_s", "idle_s", "retry_after_s"), [(100, 30, 70), (3600, 0, 300), (1.5, 1.2, 1)]
)
@simulated
async def test_a_refusal_names_the_time_until_the_longest_idle_run_may_expire(
    ttl_s, idle_s, retry_after_s, caplog
):
    authority = await make_authority(options(max_states=2, run_ttl_s=ttl_s))
    session = await join(authority, "a")
    listening = keep(authority, session)
    await authority.checkout(session, Key("old", ENTITY))
    await asyncio.sleep(idle_s)
    await authority.checkout(session, Key("young", ENTITY))
    with pytest.raises(TooManyStatesError, match=r"All 2 hidden states \(max_states\)") as refused:
        await authority.checkout(session, Key("new", ENTITY))
    listening.cancel()
    assert refused.value.retry_after_s == retry_after_s
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)
    assert cast(Any, caplog.records[-1]).about == {"run": "new", "entity": ENTITY}


@simulated
async def test_new_limits_apply_at_once_and_what_replicas_rely_on_stays():
    authority = await make_authority(options(max_states=1))
    session = await join(authority, "a")
    await authority.checkout(session, Key("a", ENTITY))
    authority.configure(options(max_states=2, lease_s=60.0))
    await authority.checkout(session, Key("b", ENTITY))
    assert authority._options.lease_s == OPTIONS.lease_s


@simulated
async def test_resets_are_forgotten_after_a_while():
    store = DictStore()
    authority = await make_authority(options(run_ttl_s=1.0), store)
    session = await join(authority, "a")
    listening = keep(authority, session)
    for n in range(10):
        await authority.reset(session, f"run-{n}")
    authority.configure(options(run_ttl_s=10.0))  # replicas with either may claim
    authority.configure(options(run_ttl_s=1.0))
    await asyncio.sleep(2 * KEEP_RELEASED_S + 10)
    assert sum(row.startswith("reset/") for row in store.rows) == 10
    await asyncio.sleep(1.0)
    assert not any(row.startswith("reset/") for row in store.rows)
    listening.cancel()
