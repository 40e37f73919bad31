"""Batches: fairness, failures of model, table and store, and what observers see."""

import asyncio
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployments.stateful import batcher as batcher_module
from deployments.stateful import engine as engine_module
from deployments.stateful.batcher import MAX_ROWS, Batcher
from deployments.stateful.calls import LONGEST_PIECE, RowOutcomes, StepResult
from deployments.stateful.engine import Engine
from deployments.stateful.errors import OutcomeUnknownError, TooManyStatesError, UnavailableError
from deployments.stateful.remote import TableServer
from deployments.stateful.row import Key
from deployments.stateful.table import Operation, Table
from deployments.stateful.turn import SteppedBatch
from tests.support.local_states import LocalShard, open_table
from tests.unit.states.implementations import InterruptedShard, Pause, connected
from tests.unit.states.tape import FORM, RAISES, RefusedError, Tape, answers_of, print_of, rows_of

KEY, OTHER = Key("run", "junction"), Key("other", "junction")


class States:
    """A table, with batchers on it."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.model = Tape()

    def batcher(self, shard: Any = None, durable: bool = False, refused: int = 0) -> Batcher:
        model = Tape(refused) if refused else self.model
        engine = Engine([shard or LocalShard(self.table)], FORM, durable)
        return engine.batcher(lambda: model, "refusing" if refused else "")


@pytest.fixture
def states(folder: Path) -> Iterator[States]:
    table = open_table(folder, FORM)
    yield States(table)
    table.close()


def call(
    batcher: Batcher, keys: Sequence[Key], numbers: Sequence[int], **arguments: Any
) -> RowOutcomes:
    outcomes = RowOutcomes(len(keys))
    batcher.submit_rows(rows_of(keys, numbers, **arguments), range(len(keys)), outcomes)
    return outcomes


def numbers_of(result: StepResult) -> list[int]:
    """Return the numbers of all steps of a state, of which there are few."""
    return list(result.output[-result.step :])


class TestFairness:
    async def test_a_large_call_of_new_runs_keeps_others_for_few_turns(self, states):
        batcher, longest = states.batcher(), 0
        runs = [Key(f"run-{n}", "junction") for n in range(4096)]
        outcomes = call(batcher, runs, range(4096))
        while not outcomes.done():
            before = states.model.n_batches
            await batcher.submit(KEY, 1)
            longest = max(longest, states.model.n_batches - before)
        assert longest <= len(runs) / MAX_ROWS + 2
        assert [result.step for result in await answers_of(outcomes)] == [1] * len(runs)

    async def test_a_turn_is_bounded(self, states):
        batcher, rows = states.batcher(), LONGEST_PIECE - 1
        keys = [Key(f"{n}", "x") for n in range(rows)]
        calls = [call(batcher, keys, range(rows)) for _ in range(2)]
        single = batcher.submit(KEY, 1)
        await single
        assert all(outcomes.done() for outcomes in calls)
        assert states.model.n_batches == 3
        assert states.table.latest() == 3


class TestCancelledRequests:
    async def test_a_cancelled_request_makes_no_step(self, states):
        batcher = states.batcher()
        batcher.submit(KEY, 1).cancel()
        rows = call(batcher, [KEY, OTHER], [2, 3])
        rows.cancel()
        assert numbers_of(await batcher.submit(KEY, 4)) == [4]
        assert [type(each) for each in await answers_of(rows)] == [ConnectionAbortedError] * 2
        assert states.table.counts()[0] == 1

    async def test_a_request_that_is_cancelled_in_its_turn_fails_no_other(self, states):
        async with connected(TableServer(states.table, asyncio.sleep).serve) as ([table], _):
            batcher = states.batcher(LocalShard(table))
            first, rows = batcher.submit(KEY, 1), call(batcher, [KEY], [2])
            other = batcher.submit(KEY, 3)
            await asyncio.sleep(0)
            first.cancel()
            rows.cancel()
            assert numbers_of(await other) == [1, 2, 3]


class TestFailures:
    async def test_a_model_that_raises_fails_its_turn_alone(self, states, caplog):
        batcher = states.batcher()
        await batcher.submit(KEY, 1)
        failing = [batcher.submit(KEY, 2), batcher.submit(OTHER, RAISES)]
        rows = call(batcher, [KEY] + [Key(f"{n}", "x") for n in range(MAX_ROWS - 1)], range(512))
        for each in failing:
            with pytest.raises(RuntimeError, match="The model fails"):
                await each
        assert (await answers_of(rows))[0].step == 2
        assert "A turn of the hidden states failed" in caplog.text

    async def test_requests_wait_for_a_table_that_is_away(self, states):
        batcher, page = states.batcher(), states.table.page
        page.valid_until = 0.0
        waiting = [batcher.submit(KEY, n, f"{n}", print_of(n)) for n in range(3)]
        await asyncio.sleep(0.1)
        assert not any(each.done() for each in waiting)
        page.valid_until = math.inf
        later = batcher.submit(KEY, 3)
        assert numbers_of(await later) == [0, 1, 2, 3]
        assert [(await each).step for each in waiting] == [1, 2, 3]

    async def test_changes_of_runs_wait_for_a_table_that_is_away(self, states, monkeypatch):
        monkeypatch.setattr(engine_module, "LONGEST_OUTAGE_S", 0.2)
        engine, page = Engine([LocalShard(states.table)], FORM), states.table.page
        await states.batcher().submit(KEY, 1)
        page.valid_until = 0.0
        reset = asyncio.create_task(engine.reset(KEY.run))
        await asyncio.sleep(0.02)
        assert not reset.done()
        page.valid_until = math.inf
        await reset
        assert await engine.find(KEY.run) is None
        page.valid_until = 0.0
        with pytest.raises(UnavailableError):
            await engine.reset(KEY.run)

    async def test_requests_fail_when_the_table_stays_away(self, states, monkeypatch):
        monkeypatch.setattr(batcher_module, "LONGEST_OUTAGE_S", 0.1)
        batcher, page = states.batcher(), states.table.page
        page.valid_until = 0.0
        with pytest.raises(UnavailableError):
            await batcher.submit(KEY, 1)
        with pytest.raises(UnavailableError):
            await batcher.submit(KEY, 2)
        page.valid_until = math.inf
        assert numbers_of(await batcher.submit(KEY, 3)) == [3]

    async def test_a_full_table_refuses_new_states(self, states):
        batcher = states.batcher()
        await batcher.submit(KEY, 1)
        states.table.set_limit(1)
        assert not batcher.at_capacity
        rows = call(batcher, [OTHER, KEY], [2, 3])
        refused, made = await answers_of(rows)
        assert (type(refused), made.step) == (TooManyStatesError, 2)
        assert batcher.at_capacity
        assert batcher.counts.at_capacity == 1
        states.table.replace(Operation("reset", KEY.run), {})
        assert (await batcher.submit(OTHER, 4)).step == 1


class Store(LocalShard):
    """A shard whose copies are made when a test allows it, or fail."""

    def __init__(self, table: Any) -> None:
        super().__init__(table)
        self.allowed = asyncio.Event()
        self.numbers: list[int] = []
        self.errors: list[Exception] = []

    async def copied(self, table: Table, number: int) -> None:
        assert table is self.table
        self.numbers.append(number)
        await self.allowed.wait()
        if self.errors:
            raise self.errors.pop(0)


class TestDurable:
    async def test_a_response_waits_for_its_copy_and_turns_do_not(self, states):
        store = Store(states.table)
        batcher = states.batcher(store, durable=True)
        first = batcher.submit(KEY, 1, "key", 1)
        await asyncio.sleep(0.01)
        repeated, second = batcher.submit(KEY, 1, "key", 1), batcher.submit(KEY, 2)
        await asyncio.sleep(0.01)
        assert states.table.read([b"run\0junction"]).rows.steps([0]) == [2]
        assert not any(each.done() for each in (first, repeated, second))
        assert not batcher.idle
        assert store.numbers == [states.table.latest() - 1, states.table.latest()]
        store.allowed.set()
        assert (await first, (await second).step) == (await repeated, 2)

    async def test_a_repeated_request_waits_for_the_copy_of_the_first(self, states):
        await states.batcher().submit(KEY, 1, "key", 1)
        store = Store(states.table)
        repeated = states.batcher(store, durable=True).submit(KEY, 1, "key", 1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert store.numbers == [states.table.latest()]
        store.allowed.set()
        assert (await repeated).step == 1

    async def test_without_a_confirmation_the_outcome_is_unknown(self, states):
        store = Store(states.table)
        store.errors = [OutcomeUnknownError(), OutcomeUnknownError()]
        store.allowed.set()
        with pytest.raises(OutcomeUnknownError):
            await states.batcher(store, durable=True).submit(KEY, 1)
        assert states.table.counts()[0] == 1
        with pytest.raises(OutcomeUnknownError):
            await Engine([store], FORM, durable=True).reset("run")

    async def test_rows_that_are_stepped_again_have_their_own_confirmation(self, states):
        pause = Pause(states.batcher)
        store = Store(states.table)
        store.errors = [OutcomeUnknownError()]
        shard = InterruptedShard(store, pause)
        batcher = states.batcher(shard, durable=True)

        async def act(other: Batcher) -> None:
            await other.submit(KEY, 1)

        pause.act = act
        keys = [KEY, *(Key(f"{n}", "x") for n in range(MAX_ROWS))]
        rows = call(batcher, keys, range(len(keys)))
        await asyncio.sleep(0.02)
        store.allowed.set()
        raced, *unknown, last = await answers_of(rows)
        assert (numbers_of(raced), numbers_of(last)) == ([1, 0], [MAX_ROWS])
        assert {type(each) for each in unknown} == {OutcomeUnknownError}
        assert batcher.counts.raced == 1
        assert len(store.numbers) == 2


class TestRaces:
    @pytest.mark.parametrize("kind", ["import", "fork"])
    async def test_an_import_in_the_middle_of_a_turn_comes_before_it(self, states, kind):
        def engine() -> Engine:
            return Engine([LocalShard(states.table)], FORM)

        async def act(other: Engine) -> None:
            await (other.write("run", made) if kind == "import" else other.fork("source", "run"))

        made = {"junction": (40, np.arange(8, dtype="<u4"))}
        await engine().write("source", made)
        await engine().write("run", {"junction": (40, np.zeros(8, "<u4"))})
        pause = Pause(engine)
        batcher = states.batcher(InterruptedShard(LocalShard(states.table), pause))
        pause.act = act
        assert await batcher.submit(KEY, 9) == ((1, 2, 3, 4, 5, 6, 7, 9), 41)
        assert (await engine().read("run"))["junction"][0] == 41
        assert batcher.counts.raced == 1


class TestObservers:
    async def test_a_batch_is_reported_after_its_responses(self, states):
        batcher, seen = states.batcher(refused=5), list[SteppedBatch]()
        await batcher.submit(KEY, 1, "key", 1)
        batcher.on_step = seen.append
        rows = call(batcher, [KEY, OTHER, Key("third", "x")], [1, 5, 6], request_ids=["key"] * 3)
        await answers_of(rows)
        # The key was used with another observation for the first row.
        (batch,) = seen
        assert list(batch.keys) == [OTHER, Key("third", "x")]
        assert list(batch.steps) == [0, 1]
        assert isinstance(batch.outputs[0], RefusedError)
        assert (batch.after[1, -1], batch.before[1, -2], batch.before[1, -1] >> 31) == (6, 0, 1)
        assert batch.seconds > 0

    async def test_of_a_batch_that_lost_a_race_the_rows_that_were_written_are_reported(
        self, states
    ):
        pause, seen = Pause(states.batcher), list[SteppedBatch]()
        batcher = states.batcher(InterruptedShard(LocalShard(states.table), pause))
        batcher.on_step = seen.append

        async def act(other: Batcher) -> None:
            await other.submit(KEY, 1)

        pause.act = act
        await answers_of(call(batcher, [KEY, OTHER], [2, 3]))
        reported = [
            (key, step, batch.after[row, -1])
            for batch in seen
            for row, (key, step) in enumerate(zip(batch.keys, batch.steps, strict=True))
        ]
        assert reported == [(OTHER, 1, 3), (KEY, 2, 2)]

    async def test_an_error_of_an_observer_fails_no_request(self, states, caplog):
        batcher = states.batcher()

        def fail(batch: SteppedBatch) -> None:
            raise ValueError("a defect")

        batcher.on_step = fail
        assert (await batcher.submit(KEY, 1)).step == 1
        await asyncio.sleep(0)
        assert "A batch was not reported" in caplog.text
