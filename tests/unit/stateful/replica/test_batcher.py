"""One replica: exactly one step per answer, in order, whatever arrives together."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import random
from collections.abc import Awaitable, Callable
from typing import Any, cast

import numpy as np
import pytest

from deployments.stateful.protocol import (
    CheckoutTimeoutError,
    Key,
    TooManyStatesError,
)
from deployments.stateful.replica.batcher import MAX_BATCH, Batcher
from deployments.stateful.replica.engine import StatefulEngine
from deployments.stateful.replica.queues import StepResult
from tests.unit.stateful.models import ENTITIES, MODEL, FoldModel, UnfitInputError
from tests.unit.stateful.virtual_time import virtual_time
from tests.unit.stateful.world import FAST, Network, World, gather, settings

KEY, OTHER = Key("run", ENTITIES[0]), Key("run", ENTITIES[1])


@virtual_time
async def test_interleaved_junctions_each_keep_their_own_state():
    world = await World(a_model=MODEL).start()
    batcher = world.replicas[0].batcher
    turns = [(entity, obs) for obs in range(20) for entity in ENTITIES]
    random.Random(0).shuffle(turns)
    asked: dict[str, list[tuple[int, StepResult]]] = {j: [] for j in ENTITIES}
    for entity, obs in turns:
        asked[entity].append((obs, await batcher.submit(Key("run", entity), obs)))
    for entity, each in asked.items():
        assert [result.step for _, result in each] == list(range(1, 21))
        MODEL.assert_replays(Key("run", entity), each)


@virtual_time
async def test_runs_share_nothing():
    world = await World(a_model=MODEL).start()
    batcher = world.replicas[0].batcher
    for run in ("a", "b"):
        asked = [(obs, await batcher.submit(Key(run, OTHER.entity), obs)) for obs in range(5)]
        MODEL.assert_replays(OTHER, asked)


@pytest.mark.parametrize("n_replicas", [1, 2, 3])
@virtual_time
async def test_64_concurrent_requests_on_one_junction_have_a_serial_order(n_replicas):
    world = await World(a_model=MODEL).start(n_replicas)
    wanted = range(64)
    answers = [
        world.replicas[n % n_replicas].batcher.submit(KEY, obs) for n, obs in enumerate(wanted)
    ]
    results = await gather(*answers)
    MODEL.assert_replays(KEY, list(zip(wanted, results, strict=True)))


@virtual_time
async def test_requests_of_one_replica_are_stepped_in_their_order():
    world = await World(a_model=MODEL).start()
    answers = [world.replicas[0].batcher.submit(KEY, obs) for obs in range(100)]
    assert [result.step for result in await gather(*answers)] == list(range(1, 101))


@virtual_time
async def test_what_arrives_in_one_turn_of_the_loop_is_one_batch():
    world = await World(a_model=MODEL).start()
    batcher = world.replicas[0].batcher
    keys = [Key(f"run-{n}", entity) for n in range(70) for entity in ENTITIES]
    await gather(*(batcher.submit(key, 1) for key in keys))
    sizes: list[int] = []
    batcher.on_step = lambda batch: sizes.append(len(batch.requests))
    await gather(*(batcher.submit(key, 1) for key in keys))
    assert sizes == [MAX_BATCH, len(keys) - MAX_BATCH]


@virtual_time
async def test_a_cancelled_request_makes_no_step():
    world = await World(a_model=MODEL).start()
    batcher = world.replicas[0].batcher
    await batcher.submit(Key("other", KEY.entity), 1)
    wanted = range(600)
    answers = [batcher.submit(KEY, obs) for obs in wanted]
    for n, answer in enumerate(answers):
        if n % 3:
            answer.cancel()
    asked = [(obs, await answer) for obs, answer in zip(wanted[::3], answers[::3], strict=True)]
    asked.append((1, await batcher.submit(KEY, 1)))
    assert len(asked) == 201
    MODEL.assert_replays(KEY, asked)


@virtual_time
async def test_hundreds_cancelled_while_the_state_is_fetched_make_no_step():
    world = await World(a_model=MODEL, network=Network(latency_s=(0.01, 0.02))).start(2)
    first = await world.replicas[0].batcher.submit(KEY, 1)
    wanted = range(400)
    answers = [world.replicas[1].batcher.submit(KEY, obs) for obs in wanted]
    await asyncio.sleep(0.005)
    for answer in answers[::2]:
        answer.cancel()
    kept = list(zip(wanted[1::2], await gather(*answers[1::2]), strict=True))
    MODEL.assert_replays(KEY, [(1, first), *kept])


@virtual_time
async def test_an_input_that_overflows_is_refused_and_changes_nothing():
    world = await World(a_model=MODEL).start()
    batcher = world.replicas[0].batcher
    first, *rest = range(3)
    asked = [(first, await batcher.submit(KEY, first))]
    bad = batcher.submit(KEY, -1)
    good = batcher.submit(Key("other", OTHER.entity), first)
    with pytest.raises(UnfitInputError):
        await bad
    MODEL.assert_replays(OTHER, [(first, await good)])
    asked += [(obs, await batcher.submit(KEY, obs)) for obs in rest]
    MODEL.assert_replays(KEY, asked)


class BrokenModel(FoldModel):
    def step(self, inputs, states):
        raise ZeroDivisionError


@virtual_time
async def test_a_defect_fails_the_batch_and_hangs_nobody():
    world = await World(a_model=MODEL).start()
    batcher = world.replicas[0].batcher
    await batcher.submit(KEY, 1)
    world.replicas[0].model = BrokenModel()
    results = await asyncio.gather(
        *(batcher.submit(KEY, 1) for _ in range(5)), return_exceptions=True
    )
    assert [type(result) for result in results] == [ZeroDivisionError] * 5
    world.replicas[0].model = MODEL
    assert (await batcher.submit(KEY, 1)).step == 2


@virtual_time
async def test_another_policy_goes_on_from_the_same_state():
    world = await World(a_model=MODEL).start()
    batcher = world.replicas[0].batcher
    await batcher.submit(KEY, 1)
    world.replicas[0].model = FoldModel(37)
    assert (await batcher.submit(KEY, 1)).step == 2


@virtual_time
async def test_without_an_authority_requests_fail_at_their_deadline_and_leave_nothing():
    world = await World(a_model=MODEL, settings=settings(lease_s=0.25)).start()
    batcher = world.replicas[0].batcher
    world.shards[0].stop()
    now = asyncio.get_running_loop().time
    for _ in range(200):
        asked, deadline = now(), 0.5
        answer = batcher.submit(KEY, 1)
        await asyncio.sleep(0.05)
    with pytest.raises(CheckoutTimeoutError):
        await answer
    assert now() - asked == pytest.approx(deadline, abs=0.01)
    held = batcher._queues._queues[KEY]
    assert len(held) <= 0.5 / 0.05 + 1, "requests long answered are still held"
    world.shards[0].start()
    assert (await _retried(batcher)).step == 1


@virtual_time
async def test_a_request_with_less_patience_fails_earlier_and_is_not_stepped():
    world = await World(a_model=MODEL, settings=settings(lease_s=0.25)).start()
    batcher = world.replicas[0].batcher
    world.shards[0].stop()
    asked = asyncio.get_running_loop().time()
    hasty, patient = batcher.submit(KEY, 1, timeout_s=0.2), batcher.submit(KEY, 1)
    with pytest.raises(CheckoutTimeoutError):
        await hasty
    assert asyncio.get_running_loop().time() - asked == pytest.approx(0.2, abs=0.01)
    assert not patient.done()
    world.shards[0].start()
    with contextlib.suppress(CheckoutTimeoutError):
        await patient
    first = (await _retried(batcher)).step
    assert first == (2 if patient.exception() is None else 1)


async def _retried(batcher: Batcher) -> StepResult:
    async with asyncio.timeout(10):
        while True:
            try:
                return await batcher.submit(KEY, 1)
            except CheckoutTimeoutError:
                pass


@virtual_time
async def test_a_request_that_waits_for_its_turn_only_is_not_refused_for_want_of_its_state():
    world = await World(a_model=MODEL).start()
    batcher = world.replicas[0].batcher
    assert (await batcher.submit(KEY, 1)).step == 1
    answer = batcher.submit(KEY, 1)
    (waiting,) = batcher._queues._queues[KEY]
    batcher._time_out(waiting)  # it began to wait when the state was not here
    assert (await answer).step == 2


@virtual_time
async def test_closing_while_a_state_is_fetched_hangs_nobody():
    world = await World(a_model=MODEL).start()
    replica = world.replicas[0]
    world.network.latency_s = (0.05, 0.05)
    answer = replica.batcher.submit(KEY, 1)
    await asyncio.sleep(0.01)
    await replica.batcher.close()
    await replica.engine.close()
    with pytest.raises((CheckoutTimeoutError, asyncio.CancelledError)):
        async with asyncio.timeout(5):
            await answer


class Leases:
    """Leases of a test: nothing is owned, and acquiring does what the test says."""

    options = FAST

    def __init__(self, acquire: Callable[[Key], Awaitable[None]]) -> None:
        self.acquire = acquire

    def leases_of(self, key: Key) -> Leases:
        return self

    def owned(self, key: Key) -> None: ...


def stepper_on(acquire: Callable[[Key], Awaitable[None]]) -> Batcher:
    return Batcher(cast(StatefulEngine, Leases(acquire)), lambda: MODEL)


@virtual_time
async def test_a_state_that_requests_share_is_asked_for_in_the_context_of_none_of_them():
    request = contextvars.ContextVar("request", default="none")
    asked_in: list[str] = []

    async def acquire(key: Key) -> None:
        asked_in.append(request.get())
        raise TooManyStatesError(1, 1)

    batcher = stepper_on(acquire)
    request.set("the first")
    answer = batcher.submit(KEY, 1)
    with pytest.raises(TooManyStatesError):
        await answer
    assert asked_in == ["none"]


@virtual_time
async def test_a_fetch_that_is_cancelled_fails_who_waits_and_is_made_again_for_the_next():
    fetches: list[asyncio.Task[Any] | None] = []

    async def acquire(key: Key) -> None:
        fetches.append(asyncio.current_task())
        await asyncio.sleep(1)

    batcher = stepper_on(acquire)
    for n in range(2):
        answer = batcher.submit(KEY, 1)
        await asyncio.sleep(0.1)
        fetch = fetches[n]
        assert fetch is not None
        fetch.cancel()
        with pytest.raises(CheckoutTimeoutError):
            async with asyncio.timeout(0.1):
                await answer


@virtual_time
async def test_states_out_of_reach_are_a_line_that_names_one_and_no_flood(caplog):
    async def acquire(key: Key) -> None:
        await asyncio.sleep(1)

    batcher = stepper_on(acquire)
    answers = [batcher.submit(KEY, 1, timeout_s=0.1) for _ in range(100)]
    await asyncio.wait(answers)
    (line,) = caplog.messages
    assert line.endswith("could not be checked out in time")
    assert caplog.records[0].about == {"run": "run", "entity": KEY.entity}


@virtual_time
async def test_the_lack_of_places_is_remembered_while_it_may_last():
    async def acquire(key: Key) -> None:
        raise TooManyStatesError(1, retry_after_s=3)

    batcher = stepper_on(acquire)
    assert not batcher.at_capacity
    answers = [batcher.submit(KEY, 1) for _ in range(2)]
    await asyncio.wait(answers)
    assert all(isinstance(answer.exception(), TooManyStatesError) for answer in answers)
    assert batcher.counts.at_capacity == 2
    assert batcher.at_capacity
    await asyncio.sleep(3.1)
    assert not batcher.at_capacity


@virtual_time
async def test_no_exception_is_left_unretrieved():
    unhandled = []
    asyncio.get_running_loop().set_exception_handler(
        lambda loop, context: unhandled.append(context)
    )
    world = await World(a_model=MODEL, network=Network(lost_reply=0.05, lost_request=0.05)).start(3)
    for n in range(100):
        answer = world.replicas[n % 3].batcher.submit(KEY, n)
        await asyncio.sleep(0.0005)
        answer.cancel()
    await gather(*(world.replicas[n].batcher.submit(KEY, 1) for n in range(3)))
    for replica in world.replicas:
        await replica.batcher.close()
        await replica.engine.close()
    world.shards[0].stop()
    await asyncio.sleep(10)
    gc.collect()
    assert unhandled == []


@virtual_time
async def test_the_hidden_state_of_an_answer_is_not_shared_with_the_batch():
    world = await World(a_model=MODEL).start()
    replica = world.replicas[0]
    await replica.batcher.submit(KEY, 1)
    state = replica.engine.leases_of(KEY).owned(KEY)
    assert state is not None
    before = state.state.copy()
    kept = state.state
    await replica.batcher.submit(KEY, 1)
    assert np.array_equal(kept, before)
    assert kept.base is None, "one state would keep a whole batch in memory"
