"""One replica: exactly one step per answer, in order, whatever arrives together."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, cast

import numpy as np
import pytest

from deployments.stateful.protocol import (
    CheckoutTimeoutError,
    Key,
    NonFiniteStateError,
    TooManyStatesError,
)
from deployments.stateful.replica.engine import StatefulEngine
from deployments.stateful.replica.batcher import MAX_BATCH, Decision, Batcher
from models.junctions import JUNCTIONS
from models.policy.step import PolicyStep
from tests.reference import random_state_dict
from tests.unit.inference.policies import (
    BIG,
    POLICY,
    SMALL,
    assert_replays,
    observations,
)
from tests.unit.stateful.virtual_time import virtual_time
from tests.unit.stateful.world import FAST, Network, Source, World, gather, settings

KEY = Key("run", SMALL)


@virtual_time
async def test_interleaved_junctions_each_keep_their_own_state():
    world = await World(policy=POLICY).start()
    stepper = world.replicas[0].stepper
    turns = [(junction, obs) for obs in observations(20) for junction in JUNCTIONS]
    random.Random(0).shuffle(turns)
    asked: dict[str, list[tuple[list[float], Decision]]] = {j: [] for j in JUNCTIONS}
    for junction, obs in turns:
        asked[junction].append((obs, await stepper.submit(Key("run", junction), obs)))
    for junction, each in asked.items():
        assert [decision.step for _, decision in each] == list(range(1, 21))
        assert_replays(junction, each)


@virtual_time
async def test_runs_share_nothing():
    world = await World(policy=POLICY).start()
    stepper = world.replicas[0].stepper
    for run in ("a", "b"):
        asked = [(obs, await stepper.submit(Key(run, BIG), obs)) for obs in observations(5)]
        assert_replays(BIG, asked)


@pytest.mark.parametrize("n_replicas", [1, 2, 3])
@virtual_time
async def test_64_concurrent_requests_on_one_junction_have_a_serial_order(n_replicas):
    world = await World(policy=POLICY).start(n_replicas)
    wanted = observations(64)
    answers = [
        world.replicas[n % n_replicas].stepper.submit(KEY, obs) for n, obs in enumerate(wanted)
    ]
    decisions = await gather(*answers)
    assert_replays(SMALL, list(zip(wanted, decisions, strict=True)))


@virtual_time
async def test_requests_of_one_replica_are_stepped_in_their_order():
    world = await World(policy=POLICY).start()
    answers = [world.replicas[0].stepper.submit(KEY, obs) for obs in observations(100)]
    assert [decision.step for decision in await gather(*answers)] == list(range(1, 101))


@virtual_time
async def test_what_arrives_in_one_turn_of_the_loop_is_one_batch():
    world = await World(policy=POLICY).start()
    stepper = Batcher(world.replicas[0].leases, Source(POLICY), FAST)
    keys = [Key(f"run-{n}", junction) for n in range(70) for junction in JUNCTIONS]
    await gather(*(stepper.submit(key, [0.5]) for key in keys))
    stepper.counts.batches.take()
    await gather(*(stepper.submit(key, [0.5]) for key in keys))
    sizes = [len(batch.agents) for batch in stepper.counts.batches.take()]
    assert sizes == [MAX_BATCH, len(keys) - MAX_BATCH]


@virtual_time
async def test_every_step_is_counted_once_by_junction_and_action():
    world = await World(policy=POLICY).start()
    stepper = world.replicas[0].stepper
    keys = [Key("run", junction) for junction in (SMALL, BIG, SMALL)]
    decisions = await gather(*(stepper.submit(key, [0.5]) for key in keys))
    with pytest.raises(NonFiniteStateError):
        await stepper.submit(KEY, [3e38, -3e38] * 9)
    expected = Counter(
        (key.entity, decision.action) for key, decision in zip(keys, decisions, strict=True)
    )
    assert stepper.counts.predictions == expected


@virtual_time
async def test_a_cancelled_request_makes_no_step():
    world = await World(policy=POLICY).start()
    stepper = world.replicas[0].stepper
    await stepper.submit(Key("other", SMALL), [0.0])
    wanted = observations(600)
    answers = [stepper.submit(KEY, obs) for obs in wanted]
    for n, answer in enumerate(answers):
        if n % 3:
            answer.cancel()
    asked = [(obs, await answer) for obs, answer in zip(wanted[::3], answers[::3], strict=True)]
    asked.append(([0.5], await stepper.submit(KEY, [0.5])))
    assert len(asked) == 201
    assert_replays(SMALL, asked)


@virtual_time
async def test_hundreds_cancelled_while_the_state_is_fetched_make_no_step():
    world = await World(policy=POLICY, network=Network(latency_s=(0.01, 0.02))).start(2)
    first = await world.replicas[0].stepper.submit(KEY, [0.0])
    wanted = observations(400)
    answers = [world.replicas[1].stepper.submit(KEY, obs) for obs in wanted]
    await asyncio.sleep(0.005)
    for answer in answers[::2]:
        answer.cancel()
    kept = list(zip(wanted[1::2], await gather(*answers[1::2]), strict=True))
    assert_replays(SMALL, [([0.0], first), *kept])


@virtual_time
async def test_an_input_that_overflows_is_refused_and_changes_nothing():
    world = await World(policy=POLICY).start()
    stepper = world.replicas[0].stepper
    first, *rest = observations(3)
    asked = [(first, await stepper.submit(KEY, first))]
    bad = stepper.submit(KEY, [3e38, -3e38] * 9)
    good = stepper.submit(Key("other", BIG), first)
    with pytest.raises(NonFiniteStateError):
        await bad
    assert_replays(BIG, [(first, await good)])
    asked += [(obs, await stepper.submit(KEY, obs)) for obs in rest]
    assert_replays(SMALL, asked)


class BrokenPolicy(PolicyStep):
    def __init__(self) -> None:
        pass

    def __call__(self, inputs, hidden, unavailable):
        raise ZeroDivisionError


@virtual_time
async def test_a_defect_fails_the_batch_and_hangs_nobody():
    world = await World(policy=POLICY).start()
    stepper = world.replicas[0].stepper
    await stepper.submit(KEY, [0.1])
    world.replicas[0].source.model = BrokenPolicy()
    results = await asyncio.gather(
        *(stepper.submit(KEY, [0.2]) for _ in range(5)), return_exceptions=True
    )
    assert [type(result) for result in results] == [ZeroDivisionError] * 5
    world.replicas[0].source.model = POLICY
    assert (await stepper.submit(KEY, [0.2])).step == 2


@virtual_time
async def test_another_policy_goes_on_from_the_same_state():
    world = await World(policy=POLICY).start()
    stepper = world.replicas[0].stepper
    await stepper.submit(KEY, [0.1])
    world.replicas[0].source.model = PolicyStep(random_state_dict(seed=9))
    assert (await stepper.submit(KEY, [0.2])).step == 2


@virtual_time
async def test_without_an_authority_requests_fail_at_their_deadline_and_leave_nothing():
    world = await World(policy=POLICY, settings=settings(checkout_timeout_s=0.5)).start()
    stepper = world.replicas[0].stepper
    world.shards[0].stop()
    now = asyncio.get_running_loop().time
    for _ in range(200):
        asked, deadline = now(), 0.5
        answer = stepper.submit(KEY, [0.1])
        await asyncio.sleep(0.05)
    with pytest.raises(CheckoutTimeoutError):
        await answer
    assert now() - asked == pytest.approx(deadline, abs=0.01)
    held = stepper._queues._queues[KEY]
    assert len(held) <= 0.5 / 0.05 + 1, "requests long answered are still held"
    world.shards[0].start()
    assert (await _retried(stepper)).step == 1


@virtual_time
async def test_a_request_with_less_patience_fails_earlier_and_is_not_stepped():
    world = await World(policy=POLICY, settings=settings(checkout_timeout_s=0.5)).start()
    stepper = world.replicas[0].stepper
    world.shards[0].stop()
    asked = asyncio.get_running_loop().time()
    hasty, patient = stepper.submit(KEY, [0.1], patience_s=0.2), stepper.submit(KEY, [0.1])
    with pytest.raises(CheckoutTimeoutError):
        await hasty
    assert asyncio.get_running_loop().time() - asked == pytest.approx(0.2, abs=0.01)
    assert not patient.done()
    world.shards[0].start()
    with contextlib.suppress(CheckoutTimeoutError):
        await patient
    first = (await _retried(stepper)).step
    assert first == (2 if patient.exception() is None else 1)


async def _retried(stepper: Batcher) -> Decision:
    async with asyncio.timeout(10):
        while True:
            try:
                return await stepper.submit(KEY, [0.1])
            except CheckoutTimeoutError:
                pass


@virtual_time
async def test_a_request_that_waits_for_its_turn_only_is_not_refused_for_want_of_its_state():
    world = await World(policy=POLICY).start()
    stepper = world.replicas[0].stepper
    assert (await stepper.submit(KEY, [1.0])).step == 1
    answer = stepper.submit(KEY, [2.0])
    (waiting,) = stepper._queues._queues[KEY]
    stepper._lose_patience(waiting)  # it began to wait when the state was not here
    assert (await answer).step == 2


@virtual_time
async def test_closing_while_a_state_is_fetched_hangs_nobody():
    world = await World(policy=POLICY).start()
    replica = world.replicas[0]
    world.network.latency_s = (0.05, 0.05)
    answer = replica.stepper.submit(KEY, [0.1])
    await asyncio.sleep(0.01)
    await replica.stepper.close()
    await replica.leases.close()
    with pytest.raises((CheckoutTimeoutError, asyncio.CancelledError)):
        async with asyncio.timeout(5):
            await answer


class Leases:
    """Leases of a test: nothing is owned, and acquiring does what the test says."""

    def __init__(self, acquire: Callable[[Key], Awaitable[None]]) -> None:
        self.acquire = acquire

    def owned(self, key: Key) -> None: ...


def stepper_on(acquire: Callable[[Key], Awaitable[None]]) -> Batcher:
    return Batcher(cast(StatefulEngine, Leases(acquire)), Source(POLICY), FAST)


@virtual_time
async def test_a_state_that_requests_share_is_asked_for_in_the_context_of_none_of_them():
    request = contextvars.ContextVar("request", default="none")
    asked_in: list[str] = []

    async def acquire(key: Key) -> None:
        asked_in.append(request.get())
        raise TooManyStatesError(1, 1)

    stepper = stepper_on(acquire)
    request.set("the first")
    answer = stepper.submit(KEY, [0.0])
    with pytest.raises(TooManyStatesError):
        await answer
    assert asked_in == ["none"]


@virtual_time
async def test_a_fetch_that_is_cancelled_fails_who_waits_and_is_made_again_for_the_next():
    fetches: list[asyncio.Task[Any] | None] = []

    async def acquire(key: Key) -> None:
        fetches.append(asyncio.current_task())
        await asyncio.sleep(1)

    stepper = stepper_on(acquire)
    for n in range(2):
        answer = stepper.submit(KEY, [0.0])
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

    stepper = stepper_on(acquire)
    answers = [stepper.submit(KEY, [0.0], patience_s=0.1) for _ in range(100)]
    await asyncio.wait(answers)
    (line,) = caplog.messages
    assert line.endswith("could not be reached in time")
    assert caplog.records[0].about == {"run": "run", "junction": SMALL}


@virtual_time
async def test_the_lack_of_places_is_remembered_while_it_may_last():
    async def acquire(key: Key) -> None:
        raise TooManyStatesError(1, retry_after_s=3)

    stepper = stepper_on(acquire)
    assert not stepper.lacks_places
    answers = [stepper.submit(KEY, [0.0]) for _ in range(2)]
    await asyncio.wait(answers)
    assert all(isinstance(answer.exception(), TooManyStatesError) for answer in answers)
    assert stepper.counts.without_place == 2
    assert stepper.lacks_places
    await asyncio.sleep(3.1)
    assert not stepper.lacks_places


@virtual_time
async def test_no_exception_is_left_unretrieved():
    unhandled = []
    asyncio.get_running_loop().set_exception_handler(
        lambda loop, context: unhandled.append(context)
    )
    world = await World(policy=POLICY, network=Network(lost_reply=0.05, lost_request=0.05)).start(3)
    for n in range(100):
        answer = world.replicas[n % 3].stepper.submit(KEY, [n / 100])
        await asyncio.sleep(0.0005)
        answer.cancel()
    await gather(*(world.replicas[n].stepper.submit(KEY, [0.5]) for n in range(3)))
    for replica in world.replicas:
        await replica.stepper.close()
        await replica.leases.close()
    world.shards[0].stop()
    await asyncio.sleep(10)
    gc.collect()
    assert unhandled == []


@virtual_time
async def test_the_hidden_state_of_an_answer_is_not_shared_with_the_batch():
    world = await World(policy=POLICY).start()
    replica = world.replicas[0]
    await replica.stepper.submit(KEY, [0.1])
    state = replica.leases.owned(KEY)
    assert state is not None
    before = state.hidden.copy()
    kept = state.hidden
    await replica.stepper.submit(KEY, [0.2])
    assert np.array_equal(kept, before)
    assert kept.base is None, "one state would keep a whole batch in memory"
