"""Batches of requests: exactly one step per response, in order, whatever arrives together."""

from __future__ import annotations

import asyncio
import contextvars
import math
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, cast

import numpy as np
import pytest

from deployments.stateful.protocol import (
    CheckoutTimeoutError,
    Grant,
    Key,
    KeyReusedError,
    NotBegunError,
    OutcomeUnknownError,
    StaleSessionError,
    TooManyStatesError,
    Version,
)
from deployments.stateful.replica import batcher as module
from deployments.stateful.replica.batcher import Batcher, SteppedBatch
from deployments.stateful.replica.calls import MAX_SHARED
from deployments.stateful.replica.engine import StatefulEngine
from deployments.stateful.replica.held_state import HeldBatch, HeldState
from deployments.stateful.replica.held_states import HeldStates
from deployments.stateful.replica.pending import Answerable
from deployments.stateful.replica.phases import Phase
from deployments.stateful.replica.queues import StepResult, StepResults
from deployments.stateful.replica.rows import LONGEST_ROUND, Keys, RowOutcomes, Rows
from deployments.stateful.replica.slab import Array
from tests.unit.stateful.authorities import now, options
from tests.unit.stateful.models import ENTITIES, MODEL, FoldModel, Numbers, UnfitInputError
from tests.unit.stateful.simulation.scenario import simulated

KEY, OTHER = Key("run", ENTITIES[0]), Key("run", ENTITIES[1])
FETCH_S = 0.01


class FakeEngine:
    """The states of one replica; a test may say how they are acquired.

    Attributes:
        waits: responses wait for their commits.
    """

    options = options(lease_s=0.25)

    def __init__(self, acquire: Callable[[Key], Awaitable[None]] | None = None) -> None:
        self.held = HeldStates()
        self.states: dict[Key, HeldState] = {}
        self.acquire = acquire or self.fetch
        self.waits = False

    def leases_of(self, key: Key) -> FakeEngine:
        return self

    def owned(self, key: Key) -> HeldState | None:
        return self.states.get(key)

    def all_owned(self, keys: Sequence[Key]) -> list[HeldState | None]:
        return list(map(self.owned, keys))

    async def fetch(self, key: Key) -> None:
        await asyncio.sleep(FETCH_S)
        state = HeldState(key, Phase.OWNED, self.held.slab)
        state.grant(Grant(Version(1, 0), None), MODEL.initial_state(key))
        self.states[key] = state

    def select(self, keys: Sequence[Key]) -> HeldBatch | None:
        states = [each for each in self.all_owned(keys) if each is not None]
        return self.batch_of(states) if len(states) == len(keys) == len(set(states)) else None

    def batch_of(self, states: Iterable[HeldState]) -> HeldBatch:
        return self.held.batch_of(states)

    def advance(self, held: HeldBatch, states: Array) -> None:
        self.held.advance(held, states)

    def let_wait(self, held: HeldBatch, batch: Answerable, results: StepResults) -> None:
        self.held.pending.add(held, batch, results)

    def acknowledge(self, key: Key, step: int) -> None:
        self.held.pending.note_sent()
        self.held.acknowledge([self.states[key].row], [step])

    def responses_wait(self) -> bool:
        return self.waits


class Served:
    """A batcher with its engine and model."""

    def __init__(
        self, acquire: Callable[[Key], Awaitable[None]] | None = None, namespace: str = ""
    ) -> None:
        self.engine = FakeEngine(acquire)
        self.model: FoldModel | None = MODEL
        engine = cast(StatefulEngine, self.engine)
        self.batcher = Batcher(engine, lambda: self.model, namespace)

    def submit(self, value: int = 1, key: Key = KEY, **how: Any) -> asyncio.Future[StepResult]:
        return self.batcher.submit(key, value, **how)


async def hang(key: Key) -> None:
    await asyncio.Event().wait()


# Steps


@simulated
async def test_each_state_has_its_own_steps_in_the_order_of_its_requests():
    served = Served()
    keys = [Key(run, entity) for run in ("a", "b") for entity in ENTITIES]
    turns = [(key, value) for value in range(20) for key in keys]
    random.Random(0).shuffle(turns)
    responded: dict[Key, list[tuple[int, StepResult]]] = {key: [] for key in keys}
    for key, value in turns:
        responded[key].append((value, await served.submit(value, key)))
    for key, results in responded.items():
        assert [result.step for _, result in results] == list(range(1, 21))
        MODEL.assert_replays(key, results)


@simulated
async def test_concurrent_requests_for_one_state_are_stepped_in_their_order():
    served = Served()
    results = await asyncio.gather(*(served.submit(value) for value in range(64)))
    assert [result.step for result in results] == list(range(1, 65))
    MODEL.assert_replays(KEY, list(enumerate(results)))


@simulated
async def test_requests_of_one_turn_of_the_loop_are_one_batch():
    served, batches = Served(), list[SteppedBatch]()
    keys = [Key(f"run-{n}", "1") for n in range(module.MAX_BATCH + 2)]
    await asyncio.gather(*(served.submit(1, key) for key in keys))
    served.batcher.on_step = batches.append
    await asyncio.gather(*(served.submit(1, key) for key in keys))
    assert [len(batch.keys) for batch in batches] == [module.MAX_BATCH, 2]
    for batch in batches:
        assert batch.steps == [2] * len(batch.keys)
        outputs, after = MODEL.step([1] * len(batch.keys), batch.before)
        assert batch.outputs == outputs
        assert np.array_equal(batch.after, after)


@pytest.mark.parametrize("owned", [True, False])
@simulated
async def test_cancelled_requests_make_no_step(owned):
    served = Served()
    first = [(0, await served.submit(0))] if owned else []
    responses = [served.submit(value) for value in range(300)]
    if not owned:
        await asyncio.sleep(FETCH_S / 2)
    for n, response in enumerate(responses):
        if n % 3:
            response.cancel()
    kept = [(value, await responses[value]) for value in range(0, 300, 3)]
    MODEL.assert_replays(KEY, [*first, *kept])


@simulated
async def test_a_refused_input_fails_its_request_and_changes_nothing_else():
    served = Served()
    results = [(1, await served.submit(1)), (2, await served.submit(2))]
    bad, good = served.submit(-1), served.submit(5, OTHER)
    with pytest.raises(UnfitInputError):
        await bad
    MODEL.assert_replays(OTHER, [(5, await good)])
    results.append((3, await served.submit(3)))
    MODEL.assert_replays(KEY, results)


@simulated
async def test_a_refused_step_is_left_to_the_fallback_with_its_own_states():
    class Lenient(FoldModel):
        def step(self, inputs: Any, states: Array) -> Any:
            return super().step([abs(value) for value in inputs], states)

    served = Served(namespace="new")
    engine = cast(StatefulEngine, served.engine)
    fallback = served.batcher.fallback = Batcher(engine, Lenient)
    assert (await served.submit(1)).step == 1
    result = await served.submit(-1, request_id="once")
    assert result.step == 1
    assert served.engine.states.keys() == {KEY, KEY.in_namespace("new")}
    assert (served.batcher.counts.passed_on, fallback.counts.passed_on) == (1, 0)


@pytest.mark.parametrize("model", ["broken", "missing"])
@simulated
async def test_a_defect_fails_the_batch_and_the_next_requests_are_stepped(model):
    class Broken(FoldModel):
        def step(self, inputs: Any, states: Any) -> Any:
            raise ZeroDivisionError

    served = Served()
    await served.submit()
    served.model = Broken() if model == "broken" else None
    requests = [served.submit() for _ in range(5)]
    results = await asyncio.gather(*requests, return_exceptions=True)
    expected = ZeroDivisionError if model == "broken" else RuntimeError
    assert [type(result) for result in results] == [expected] * 5
    served.model = FoldModel(37)  # another model continues from the same state
    assert (await served.submit()).step == 2


@simulated
async def test_lost_steps_fail_the_requests_of_a_batch_whose_clients_have_not_gone():
    served = Served()
    await asyncio.gather(*map(served.engine.fetch, (KEY, OTHER)))
    served.engine.waits = True
    gone, waiting = served.submit(1, KEY), served.submit(1, OTHER)
    await asyncio.sleep(0)
    gone.cancel()
    served.engine.held.pending.fail(list(served.engine.states.values()))
    with pytest.raises(StaleSessionError):
        await waiting


@simulated
async def test_an_error_of_an_observer_fails_no_request_and_is_one_line_in_the_log(caplog):
    def broken(batch: SteppedBatch) -> None:
        raise IndexError("no such fault")

    served = Served()
    await served.engine.fetch(KEY)
    served.batcher.on_step = broken
    served.engine.waits = True
    waiting = served.submit()
    await asyncio.sleep(0)
    served.engine.acknowledge(KEY, 1)
    assert (await waiting).step == 1
    served.engine.waits = False
    assert (await served.submit()).step == 2
    assert [each.message for each in caplog.records] == [
        "A batch was not reported: IndexError('no such fault')"
    ]


@simulated
async def test_a_later_step_changes_nothing_that_an_observer_has_seen():
    served, batches = Served(), list[SteppedBatch]()
    served.batcher.on_step = batches.append
    await served.submit(1)
    seen = [array.copy() for array in (batches[0].before, batches[0].after)]
    await served.submit(2)
    assert np.array_equal(batches[0].before, seen[0])
    assert np.array_equal(batches[0].after, seen[1])


@simulated
async def test_many_requests_for_one_state_leave_the_loop_to_others(monkeypatch):
    class Clock:
        """Each look at it takes a millisecond."""

        now = 0.0

        def perf_counter(self) -> float:
            self.now += 0.001
            return self.now

    served, clock = Served(), Clock()
    await asyncio.gather(served.submit(1), served.submit(1, OTHER))
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "LONGEST_TURN_S", 0.004)
    crowd, turns = [served.submit(1) for _ in range(500)], []
    assert (await served.submit(1, OTHER)).step == 2
    assert not crowd[20].done()
    while not crowd[-1].done():
        before = clock.now
        await asyncio.sleep(0)
        turns.append(clock.now - before)
    assert max(turns) <= 0.008
    assert len(turns) > 50
    assert [response.result().step for response in crowd] == list(range(2, 502))


# Receipts


@simulated
async def test_a_repeated_request_gets_the_first_result_and_makes_no_step():
    served = Served()
    how: dict[str, Any] = {"request_id": "a", "fingerprint": "one"}
    first = await asyncio.gather(*(served.submit(1, **how) for _ in range(10)))
    assert set(first) == {first[0]}
    assert (await served.submit(2)).step == 2
    assert await served.submit(1, **how) == first[0]
    assert (await served.submit(3, request_id="b")).step == 3
    with pytest.raises(KeyReusedError):
        await served.submit(4, request_id="a", fingerprint="two")
    assert (await served.submit(5)).step == 4


@simulated
async def test_a_repeated_request_waits_for_the_commit_of_its_step_too():
    served = Served()
    await served.submit(1)
    served.engine.waits = True
    responses = [served.submit(2, request_id="a") for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(response.done() for response in responses)
    served.engine.acknowledge(KEY, 2)
    assert [response.result().step for response in responses] == [2, 2]
    assert (await served.submit(2, request_id="a")).step == 2, "it is committed"


# Checkouts


@simulated
async def test_requests_time_out_without_their_state_and_are_forgotten():
    served = Served(hang)
    longest_s = served.engine.options.checkout_timeout_s
    responses = []
    for _ in range(50):
        sent = now()
        responses.append(served.submit())
        await asyncio.sleep(longest_s / 10)
    hasty, patient = served.submit(timeout_s=0.1), served.submit(timeout_s=99)
    with pytest.raises(CheckoutTimeoutError):
        await hasty
    assert not patient.done()
    with pytest.raises(CheckoutTimeoutError):
        await patient
    assert now() - sent == pytest.approx(longest_s * 1.1, abs=0.01)
    assert all(isinstance(each.exception(), CheckoutTimeoutError) for each in responses)
    assert len(served.batcher._queues._queues[KEY]) <= 12


@simulated
async def test_a_request_that_timed_out_is_not_stepped_and_a_later_one_is():
    arrives = asyncio.Event()

    async def acquire(key: Key) -> None:
        await arrives.wait()
        await served.engine.fetch(key)

    served = Served(acquire)
    hasty, patient = served.submit(1, timeout_s=0.1), served.submit(2)
    await asyncio.sleep(0.2)
    arrives.set()
    MODEL.assert_replays(KEY, [(2, await patient)])
    assert isinstance(hasty.exception(), CheckoutTimeoutError)


@simulated
async def test_a_request_that_only_waits_for_its_turn_does_not_time_out():
    served = Served()
    await served.submit()
    response = served.submit()
    (waiting,) = served.batcher._queues._queues[KEY]
    served.batcher._time_out(waiting)  # its timer was started before the state arrived
    assert (await response).step == 2


@pytest.mark.parametrize("ends", ["close", "cancel"])
@simulated
async def test_a_fetch_that_is_cancelled_fails_its_requests_and_is_made_again(ends):
    fetches: list[asyncio.Task[Any] | None] = []

    async def acquire(key: Key) -> None:
        fetches.append(asyncio.current_task())
        await hang(key)

    served = Served(acquire)
    for n in range(2):
        response = served.submit()
        await asyncio.sleep(0.1)
        assert not served.batcher.idle
        if ends == "close":
            await served.batcher.close()
        else:
            cast(asyncio.Task[Any], fetches[n]).cancel()
        with pytest.raises(CheckoutTimeoutError):
            async with asyncio.timeout(0.01):
                await response
        assert served.batcher.idle


@simulated
async def test_a_state_is_fetched_in_the_context_of_none_of_its_requests():
    context, fetched_in = contextvars.ContextVar("request", default="none"), []

    async def acquire(key: Key) -> None:
        fetched_in.append(context.get())
        raise ZeroDivisionError

    context.set("the first")
    with pytest.raises(ZeroDivisionError):
        await Served(acquire).submit()
    assert fetched_in == ["none"]


@simulated
async def test_requests_that_time_out_together_are_one_line_in_the_log(caplog):
    served = Served(hang)
    await asyncio.wait([served.submit(timeout_s=0.1) for _ in range(100)])
    (line,) = caplog.messages
    assert line.endswith("could not be checked out in time")
    assert cast(Any, caplog.records[0]).about == {"run": "run", "entity": KEY.entity}


@simulated
async def test_a_refused_state_fails_every_request_but_those_of_clients_that_left():
    async def acquire(key: Key) -> None:
        await asyncio.sleep(FETCH_S)
        raise ZeroDivisionError

    served = Served(acquire)
    left, waiting = served.submit(), served.submit()
    await asyncio.sleep(FETCH_S / 2)
    left.cancel()
    with pytest.raises(ZeroDivisionError):
        async with asyncio.timeout(FETCH_S):
            await waiting


@simulated
async def test_a_refusal_at_the_limit_on_states_is_remembered_while_it_may_last():
    async def acquire(key: Key) -> None:
        raise TooManyStatesError(1, retry_after_s=3)

    served = Served(acquire)
    assert not served.batcher.at_capacity
    responses = [served.submit() for _ in range(2)]
    await asyncio.wait(responses)
    assert all(isinstance(each.exception(), TooManyStatesError) for each in responses)
    assert served.batcher.counts.at_capacity == 2
    assert served.batcher.at_capacity
    await asyncio.sleep(3.1)
    assert not served.batcher.at_capacity


# Rows


def rows_of(*values: tuple[Key, int], **how: Any) -> Rows:
    keys, numbers = zip(*values, strict=True)
    return Rows(Keys(keys), Numbers(numbers), math.inf, **how)


async def answered(served: Served, rows: Rows) -> list[Any]:
    """Submit rows; return the outcome of each."""
    outcomes = RowOutcomes(len(rows.keys))
    served.batcher.submit_rows(rows, range(len(rows.keys)), outcomes)
    return list(await outcomes.all())


async def sizes_of_steps(served: Served, *calls: Rows) -> list[int]:
    """Submit calls in one turn; return the number of rows of each step of the model."""
    sizes: list[int] = []
    served.batcher.on_step = lambda batch: sizes.append(len(batch.keys))
    await asyncio.gather(*(answered(served, rows) for rows in calls))
    return sizes


@simulated
async def test_calls_for_different_states_make_their_rounds_together():
    served, runs = Served(), [Key(f"run-{n}", ENTITIES[0]) for n in range(3)]
    for key in (*runs, KEY, OTHER):
        await served.engine.fetch(key)
    calls = [
        rows_of((KEY, 1), (OTHER, 2), (KEY, 3), (KEY, 4)),
        rows_of(*((key, 1) for key in runs)),
        rows_of((OTHER, 5), (OTHER, 6)),  # waits for the first one's rounds
        rows_of((runs[0], 1)),  # and this for the second one's
    ]
    assert await sizes_of_steps(served, *calls) == [5, 2, 1, 1, 1]
    assert served.engine.states[OTHER].version.step == 3


@simulated
async def test_a_step_is_shared_up_to_its_size_and_a_long_call_has_several():
    served, most = Served(), MAX_SHARED
    keys = [Key(f"run-{n}", ENTITIES[0]) for n in range(LONGEST_ROUND + 2 + most)]
    for key in keys:
        await served.engine.fetch(key)
    sizes = LONGEST_ROUND + 1, most // 2, most // 2, 1
    ends = list(accumulate(sizes))
    calls = [
        rows_of(*((key, 1) for key in keys[end - size : end]))
        for size, end in zip(sizes, ends, strict=True)
    ]
    assert await sizes_of_steps(served, *calls) == [LONGEST_ROUND, 1 + most // 2, most // 2 + 1]


@simulated
async def test_requests_for_one_state_that_come_together_keep_their_order_with_those_before():
    served = Served()
    first = served.submit(1)
    await served.engine.fetch(KEY)
    queued = served.submit(2)
    values = [(KEY, 3), (OTHER, 4), (KEY, 5), (OTHER, 6)]
    results = await answered(served, rows_of(*values))
    MODEL.assert_replays(
        KEY, list(zip((1, 2, 3, 5), (await first, await queued, *results[::2]), strict=True))
    )
    MODEL.assert_replays(OTHER, list(zip((4, 6), results[1::2], strict=True)))


@simulated
async def test_a_state_is_begun_unless_the_request_is_to_continue_one():
    served = Served()
    refused = await answered(served, rows_of((KEY, 1), (OTHER, 1), continues=True))
    assert [type(each) for each in refused] == [NotBegunError] * 2
    begun = await answered(served, rows_of((KEY, 1)))
    again = await answered(served, rows_of((KEY, 2)))
    (continued,) = await answered(served, rows_of((KEY, 3), continues=True))
    MODEL.assert_replays(KEY, list(zip((1, 2, 3), (*begun, *again, continued), strict=True)))


@simulated
async def test_a_request_that_is_repeated_among_others_gets_the_first_result():
    served = Served()
    await served.engine.fetch(KEY)
    both = [(KEY, 1), (OTHER, 1)]
    rows = rows_of(*both, request_ids=["a", "a"], fingerprints=["1", "1"])
    first = await answered(served, rows)
    assert await answered(served, rows) == first
    rows = rows_of((KEY, 2), request_ids=["a"], fingerprints=["2"])
    refused = await answered(served, rows)
    assert [type(each) for each in refused] == [KeyReusedError]


@simulated
async def test_rows_that_wait_for_a_commit_are_answered_by_it_and_fail_when_it_is_late():
    served = Served()
    await served.engine.fetch(KEY)
    await served.engine.fetch(OTHER)
    served.engine.waits = True
    outcomes = RowOutcomes(2)
    served.batcher.submit_rows(rows_of((KEY, 1), (OTHER, 1)), range(2), outcomes)
    await asyncio.sleep(0)
    assert not outcomes.has(0)
    served.engine.acknowledge(KEY, 1)
    assert outcomes.has(0)
    assert not outcomes.has(1)
    begun = now()
    committed, late = await outcomes.all()
    assert isinstance(committed, StepResult)
    assert committed.step == 1
    assert isinstance(late, OutcomeUnknownError)
    assert now() - begun == pytest.approx(served.engine.options.commit_timeout_s)


@simulated
async def test_a_repeated_request_that_waits_for_its_commit_does_not_wait_for_its_state():
    leased = asyncio.Event()

    async def acquire(key: Key) -> None:
        await leased.wait()

    served = Served(acquire)
    await served.engine.fetch(KEY)
    served.engine.waits = True
    once: dict[str, Any] = {"request_id": "once", "fingerprint": "1"}
    served.submit(1, **once)
    await asyncio.sleep(0)
    state = served.engine.states.pop(KEY)  # the lease is not valid for a moment
    again = served.submit(1, **once, timeout_s=0.05)
    await asyncio.sleep(0.01)
    served.engine.states[KEY] = state
    leased.set()
    await asyncio.sleep(0.01)
    leased.clear()
    del served.engine.states[KEY]  # and again, for another request
    later = served.submit(2)
    await asyncio.sleep(0.1)
    assert not again.done()
    served.engine.states[KEY] = state
    served.engine.acknowledge(KEY, 1)
    assert (await again).step == 1
    later.cancel()


@simulated
async def test_no_rows_have_no_outcomes_at_once():
    async with asyncio.timeout(1):
        assert not await RowOutcomes(0).all()


@simulated
async def test_rows_of_a_caller_that_has_gone_make_no_further_step():
    served = Served()
    await served.engine.fetch(OTHER)
    outcomes = RowOutcomes(3)
    served.batcher.submit_rows(rows_of((KEY, 1), (OTHER, 1), (KEY, 2)), range(3), outcomes)
    await asyncio.sleep(0)
    outcomes.cancel()
    await asyncio.sleep(2 * FETCH_S)
    assert served.engine.states[KEY].version.step == 0
    assert served.engine.states[OTHER].version.step == 1


@simulated
async def test_rows_that_the_model_refuses_fail_alone_or_are_left_to_the_fallback():
    served, fallback = Served(), Served(namespace="b")
    await served.engine.fetch(KEY)
    await served.engine.fetch(OTHER)
    refused, made = await answered(served, rows_of((KEY, -1), (OTHER, 1)))
    assert (type(refused), made.step) == (UnfitInputError, 1)
    fallback.model = cast(FoldModel, AcceptingModel())
    served.batcher.fallback = fallback.batcher
    passed_on, made = await answered(served, rows_of((KEY, -1), (OTHER, 1)))
    assert (passed_on.output, passed_on.step, made.step) == ((0,), 1, 2)
    assert list(fallback.engine.states) == [KEY.in_namespace("b")]
    served.model = None
    (failed,) = await answered(served, rows_of((KEY, 1)))
    assert isinstance(failed, RuntimeError)


class AcceptingModel:
    def step(self, inputs: Any, states: Array) -> tuple[list[Any], Array]:
        return [(0,)] * len(inputs), states + 1


@pytest.mark.parametrize("seed", range(20))
@simulated
async def test_rows_and_requests_in_any_mixture_make_each_step_once_and_in_order(seed: int):
    """States come and go, requests overtake nothing of their state, keys repeat steps."""
    served, rng = Served(), random.Random(seed)
    keys = [Key(f"run-{n}", ENTITIES[0]) for n in range(6)]
    sent: dict[Key, list[tuple[int, asyncio.Future[Any]]]] = {key: [] for key in keys}
    for _ in range(40):
        if rng.random() < 0.3:
            gone = rng.choice(keys)
            if served.engine.states.get(gone) is not None:
                stored = served.engine.states.pop(gone)
                served.engine.acquire = give_back(served, stored, served.engine.acquire)
        chosen = [(rng.choice(keys), rng.randrange(100)) for _ in range(rng.randrange(1, 8))]
        if rng.random() < 0.3:
            for key, value in chosen:
                sent[key].append((value, served.submit(value, key)))
        else:
            task = asyncio.ensure_future(answered(served, rows_of(*chosen)))
            for row, (key, value) in enumerate(chosen):
                sent[key].append((value, asyncio.ensure_future(one_of(task, row))))
        await asyncio.sleep(rng.choice((0, 0, FETCH_S / 2, FETCH_S)))
    for key, steps in sent.items():
        results = [(value, await result) for value, result in steps]
        assert [result.step for _, result in results] == list(range(1, len(results) + 1))
        MODEL.assert_replays(key, results)


def give_back(
    served: Served, stored: HeldState, otherwise: Callable[[Key], Awaitable[None]]
) -> Callable[[Key], Awaitable[None]]:
    """Let a state that has left come back as it was."""

    async def acquire(key: Key) -> None:
        if key != stored.key:
            await otherwise(key)
            return
        await asyncio.sleep(FETCH_S)
        served.engine.states[key] = stored

    return acquire


async def one_of(rows: asyncio.Future[list[Any]], row: int) -> Any:
    return (await rows)[row]
