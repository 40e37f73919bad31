"""Bounded memory: idle runs expire, and new states are refused at the limit."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from deployments.stateful.options import StateOptions
from deployments.stateful.protocol import Key, Output, StateError, TooManyStatesError
from deployments.stateful.replica.batcher import Batcher
from deployments.stateful.replica.claims import KEEP_RELEASED_S
from deployments.stateful.replica.engine import StatefulEngine
from deployments.stateful.replica.held_states import Array
from tests.support.states import LocalStates
from tests.support.virtual_time import virtual_time

ENTITY = "entity"


class Counter:
    """Counts the steps of each state."""

    def initial_state(self, key: Key) -> Array:
        return np.zeros(1, np.int64)

    def step(
        self, inputs: Sequence[Any], states: Array
    ) -> tuple[Sequence[Output | StateError], Array]:
        return [(int(count) + 1,) for count in states[:, 0]], states + 1


class Replica:
    def __init__(self, engine: StatefulEngine) -> None:
        self.engine = engine
        self._batcher = Batcher(engine, Counter)

    async def step(self, run: str, entity: str = ENTITY) -> int:
        """Make one step, and return the number of steps of the state."""
        result = await self._batcher.submit(Key(run, entity), None)
        assert result.output == (result.step,)
        return result.step


async def serve(n: int = 1, **options: Any) -> tuple[LocalStates, list[Replica]]:
    states = LocalStates(StateOptions(**options), Counter().initial_state)
    return states, [Replica(await states.start_engine()) for _ in range(n)]


def now() -> float:
    return asyncio.get_running_loop().time()


@virtual_time
async def test_an_idle_run_expires_and_a_used_one_does_not():
    states, replicas = await serve(2, run_ttl_s=1.0)
    await replicas[0].step("idle")
    for n in range(1, 20):
        assert await replicas[n % 2].step("used") == n
        await asyncio.sleep(0.2)
    assert states.authority.n_states == 1
    assert replicas[0].engine.leases_of(Key("idle", ENTITY)).owned(Key("idle", ENTITY)) is None
    assert await replicas[0].step("idle") == 1


@virtual_time
async def test_one_used_entity_keeps_the_whole_run():
    _, (replica,) = await serve(run_ttl_s=1.0)
    await replica.step("run", "quiet")
    for _ in range(20):
        await replica.step("run", "busy")
        await asyncio.sleep(0.2)
    assert await replica.step("run", "quiet") == 2


@virtual_time
async def test_a_run_that_is_used_while_it_expires_is_kept():
    _, (replica,) = await serve(run_ttl_s=1.0, loss_bound_s=0.75)
    await replica.step("run")
    await asyncio.sleep(1.25)  # its commit, which is a use, took 0.3 s
    assert await replica.step("run") == 2  # this one's commit would follow the sweep
    await asyncio.sleep(0.4)
    assert replica.engine.counts.recalls == 1, "the run was about to expire"
    assert await replica.step("run") == 3


@virtual_time
async def test_a_checkout_is_a_use_of_its_run():
    _, (owner, other) = await serve(2, run_ttl_s=1.0, loss_bound_s=1.0)
    for _ in range(5):
        await owner.step("run")
    await asyncio.sleep(1.1)  # its commit was sent after 0.4 s
    owner.engine.leases_of(Key("run", ENTITY))._give_back = lambda key: None  # type: ignore[method-assign]
    waiting = asyncio.create_task(other.step("run"))
    await asyncio.sleep(0.8)
    assert not waiting.done()
    await owner.engine.close()
    assert await waiting == 6


@virtual_time
async def test_a_thousand_runs_expire_together_without_a_stall():
    states, (replica,) = await serve(run_ttl_s=1.0)
    await asyncio.gather(*(replica.step(f"run-{n}") for n in range(1000)))
    assert states.authority.n_states == 1000
    await asyncio.sleep(2)
    assert states.authority.n_states == 0
    assert replica.engine.counts.sessions == 1, "the lease expired meanwhile"


@virtual_time
async def test_at_the_limit_new_states_are_refused_and_existing_ones_stepped(caplog):
    _, replicas = await serve(2, max_states=3)
    for n in range(3):
        await replicas[0].step(f"run-{n}")
    with pytest.raises(TooManyStatesError, match=r"All 3 hidden states \(max_states\) are in use"):
        await replicas[1].step("one too many")
    assert caplog.records[-1].about == {"run": "one too many", "entity": ENTITY}
    assert [await replicas[1].step(f"run-{n}") for n in range(3)] == [2, 2, 2]
    await replicas[0].engine.reset("run-0")
    assert await replicas[1].step("one too many") == 1


@pytest.mark.parametrize(
    ("ttl_s", "idle_s", "retry_after_s"), [(100, 30, 70), (3600, 0, 300), (1.5, 1.2, 1)]
)
@virtual_time
async def test_a_refusal_names_the_time_until_the_longest_idle_run_may_expire(
    ttl_s: float, idle_s: float, retry_after_s: int
):
    _, (replica,) = await serve(max_states=2, run_ttl_s=ttl_s)
    await replica.step("old")
    await asyncio.sleep(idle_s)
    await replica.step("young")
    with pytest.raises(TooManyStatesError) as refused:
        await replica.step("new")
    assert refused.value.retry_after_s == pytest.approx(retry_after_s, abs=1)
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


@virtual_time
async def test_a_new_limit_applies_at_once_and_lease_times_stay():
    states, (replica,) = await serve(max_states=1)
    await replica.step("a")
    states.authority.configure(StateOptions(max_states=2, lease_s=60.0))
    assert await replica.step("b") == 1
    late = await states.start_engine()
    assert late.leases_of(Key("b", ENTITY))._session._lease_until < now() + 10


@virtual_time
async def test_resets_and_moves_are_forgotten_after_a_while():
    states, replicas = await serve(2)
    for n in range(50):
        await replicas[n % 2].step(f"run-{n % 10}")
        await replicas[0].engine.reset(f"run-{n % 10}")
    await asyncio.sleep(KEEP_RELEASED_S + 1)
    leases = [replica.engine.leases_of(Key("", "")) for replica in replicas]
    assert not any(each._claims._recent.copies() for each in leases)
    assert states.authority.n_states == 0
