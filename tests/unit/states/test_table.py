"""The table: its memory, its limits, its log and its failures."""

import os
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from deployments.stateful import table as table_module
from deployments.stateful.engine import Engine
from deployments.stateful.errors import TableFullError, TooManyStatesError, UnavailableError
from deployments.stateful.row import FEW, Keyed, RowForm, id_of, name_of, numbered_ids, variant_of
from deployments.stateful.table import OPERATIONS, Operation, Table, full_size
from tests.support.local_states import LocalShard, open_table, stepped
from tests.unit.states.tape import FORM, LENGTH

POLICY = RowForm(np.dtype(("<f4", 128)), np.dtype([("action", "u1"), ("confidence", "<f4")]))
"""The form of the states that the inference service keeps."""

SMALL = RowForm(np.dtype("<u4"), np.dtype([("number", "u1")]))

Open = Callable[..., Table]


@pytest.fixture
def open_one(folder: Path) -> Iterator[Open]:
    tables = []

    def opened(form: RowForm = FORM, max_states: int = 100_000, map_size: int = 1 << 28) -> Table:
        tables.append(open_table(folder, form, max_states, map_size))
        return tables[-1]

    yield opened
    for table in tables:
        table.close()


@pytest.fixture
def table(open_one: Open) -> Table:
    return open_one()


def names_of(*numbers: int, run: str = "run") -> list[bytes]:
    return [name_of(f"{run}-{number:06}", "junction") for number in numbers]


def step(table: Table, names: Sequence[bytes]) -> table_module.Written:
    """Step rows once, without a model."""
    return table.write(names, stepped(table.read(names)))


def steps_of(table: Table, names: Sequence[bytes]) -> list[int]:
    return table.read(names).rows.steps(range(len(names)))


def n_bytes(folder: Path) -> int:
    return (folder / "table").stat().st_blocks * 512


class TestLog:
    def test_what_is_copied_is_forgotten(self, table):
        name = names_of(1)
        for _ in range(3):
            begun = table.latest()
            for _ in range(40_000):
                table.page.note(begun, name)
            assert not table.page.log_is_filling
            step(table, name)
            assert table.changed(begun) == (begun + 1, set(name))
            assert table.changed(begun + 1) == (begun + 1, set())
        assert table.changed(table.latest() + 1)[1] is None, "the store has another table's copies"

    def test_what_the_store_has_not_taken_is_told_again(self, table):
        begun, names = table.latest(), names_of(1, 2, 3)
        for number, name in enumerate(names, 1):
            step(table, [name])
            assert table.changed(begun) == (begun + number, set(names[:number]))

    def test_a_log_that_is_full_begins_anew(self, table):
        names, begun = names_of(*range(1000)), table.latest()
        assert table.changed(begun) == (begun, set())
        for _ in range(400):
            step(table, names[:1])
            table.page.note(table.latest(), names)
        number, changed = table.changed(begun)
        assert (number, changed) == (begun + 400, None)
        step(table, names[1:2])
        assert table.changed(number) == (number + 1, {names[1]})

    def test_a_process_that_is_killed_while_it_forgets_leaves_all_to_be_copied(self, table):
        step(table, names_of(1))
        assert table.changed(table.latest())[1] == set()
        table.page._begin_anew(table.latest())
        assert table.changed(table.latest() - 1)[1] is None
        table.page._begin_anew(table.latest() + 1)  # by a writer that was killed before its commit
        assert table.changed(table.latest() - 1)[1] is None
        assert table.changed(table.latest())[1] == set()


class TestLimit:
    def test_the_limit_is_exact_for_racing_writers_and_imports(self, open_one):
        limit, table = 200, open_one(max_states=200)

        def write(writer: int) -> int:
            n_written = 0
            for number in range(60):
                if number % 3:
                    names = names_of(*range(number * 9, number * 9 + 9), run=f"steps-{writer}")
                    n_written += 9 - len(step(table, names).refused)
                else:
                    run = f"import-{writer}-{number}"
                    rows = {name_of(run, f"{n}"): FORM.empty for n in range(7)}
                    try:
                        table.replace(Operation("import", run), rows)
                        n_written += 7
                    except TooManyStatesError:
                        assert not table.rows_of(run)
            return n_written

        with ThreadPoolExecutor(4) as threads:
            n_written = sum(threads.map(write, range(4)))
        assert n_written == limit
        assert table.counts() == (limit, limit)
        assert len(table.list(limit=1000)) == limit

    def test_states_go_on_under_a_limit_that_was_lowered(self, open_one):
        table, names = open_one(), names_of(*range(10))
        step(table, names)
        table.set_limit(5)
        written = step(table, [*names, *names_of(10)])
        assert list(written.refused) == [10]
        assert isinstance(written.why, TooManyStatesError)
        assert steps_of(table, names) == [2] * 10
        rows = {name_of("run-000001", "junction"): FORM.empty}
        table.replace(Operation("import", "run-000001"), rows)
        assert table.counts() == (10, 5)

        with pytest.raises(TooManyStatesError, match="All 5 hidden states"):
            table.replace(Operation("import", "other"), {name_of("other", "0"): FORM.empty})


class TestFullFile:
    def test_states_go_on_when_the_file_is_full(self, open_one):
        table = open_one(POLICY, map_size=8 << 20)
        n_states = 0
        while not (written := step(table, names_of(*range(n_states, n_states + 100)))).refused:
            n_states += 100
        assert isinstance(written.why, TableFullError)
        n_states = table.counts()[0]
        for first in range(0, n_states - 50, 50):
            for _ in range(5):
                assert not step(table, names_of(*range(first, first + 50))).refused
        rows = dict.fromkeys(names_of(*range(100), run="new"), POLICY.empty)
        with pytest.raises(TableFullError):
            table.replace(Operation("import", "new"), rows)
        table.page.copied = table.latest()
        for n in range(100):
            table.replace(Operation("reset", f"run-{n:06}"), {})
        assert not step(table, names_of(n_states + 1)).refused

    def test_an_error_of_the_file_refuses_new_states_alone(self, open_one, monkeypatch):
        table, old = open_one(POLICY, map_size=1 << 20), names_of(*range(4))
        step(table, old)
        monkeypatch.setattr(table, "_room", lambda: 1 << 30)
        written = step(table, [*old, *names_of(*range(1000, 2000))])
        assert sorted(written.refused) == list(range(4, 1004))
        assert isinstance(written.why, TableFullError)
        assert steps_of(table, old) == [2] * 4
        assert table.counts()[0] == 4
        rows = dict.fromkeys(names_of(*range(1000), run="new"), POLICY.empty)
        number = table.latest()
        with pytest.raises(TableFullError, match="Free space there"):
            table.replace(Operation("import", "new"), rows)
        assert table.latest() == number


class TestRows:
    def test_nothing_is_changed_after_the_home_s_term(self, table):
        names = names_of(1, 2)
        step(table, names)
        number = table.latest()
        table.page.valid_until = 0.0
        changes: list[Callable[[], object]] = [
            lambda: step(table, names),
            lambda: table.replace(Operation("reset", "run-000001", "key"), {}),
            lambda: table.replace(Operation("import", "run-000001"), {names[0]: FORM.empty}),
            lambda: table.evict(b"run-000001", lambda used: True),
        ]
        for change in changes:
            with pytest.raises(UnavailableError):
                change()
        assert table.latest() == number
        assert steps_of(table, names) == [1, 1]

    def test_a_state_that_was_made_again_is_another_one(self, table):
        names = names_of(1)
        step(table, names)
        read = table.read(names)
        table.replace(Operation("reset", "run-000001"), {})
        step(table, names)
        assert steps_of(table, names) == read.rows.steps([0])
        assert list(table.write(names, read).raced) == [0]

    def test_a_run_is_removed_as_a_whole_or_not_at_all(self, table):
        names = [name_of("run", each) for each in "abcd"]
        for now, name in zip((10, 20, 30, 40), names, strict=True):
            table.write([name], stepped(table.read([name]), now))
        step(table, [name_of("run-2", "a"), name_of("ru", "a")])
        assert [row.used for row in table.list()] == [0, 10, 20, 30, 40, 0]
        table.evict(b"run", lambda used: used < 40)
        table.evict(b"absent", lambda used: True)
        assert table.counts()[0] == 6
        table.evict(b"run", lambda used: used < 41)
        assert [row.name for row in table.list()] == [name_of("ru", "a"), name_of("run-2", "a")]
        assert table.counts()[0] == 2

    @pytest.mark.parametrize("n_rows", [1, FEW, FEW + 1])
    def test_a_step_of_many_rows_prolongs_each_as_that_of_one(self, table, n_rows):
        names = names_of(*range(n_rows))
        for now in (10, 20):
            table.write(names, stepped(table.read(names), now))
        assert [row.used for row in table.list()] == [20] * n_rows

    def test_rows_of_the_store_are_loaded(self, table):
        rows = dict.fromkeys(names_of(1, 2, 3), FORM.empty)
        table.load(rows)
        assert table.get(names_of(1, 2, 3, 4)) == rows
        assert table.counts()[0] == 3
        assert table.pids() == {os.getpid()}

    @pytest.mark.parametrize("n_rows", [1, 2, FEW, FEW + 1])
    def test_a_row_remembers_its_64_latest_keys(self, table, n_rows):
        names, every = names_of(*range(n_rows)), range(n_rows)
        rows, first = table.read(names).rows, (1 << 32) - 5
        for at in every:
            rows.begin(at, 0, first, np.zeros(LENGTH, "<u4"))
        for number in range(70):
            answers = np.full(n_rows, number, "<u4").astype(FORM.output)
            ids = [number + 1] * n_rows
            if n_rows > 1:
                ids[1] = 0
            keyed = Keyed(ids, [number] * n_rows)
            rows.advance(every, rows.states(every), 0, keyed, answers)
        for number in range(70):
            found = rows.receipts(every, [number + 1] * n_rows)
            assert list(found) == ([n for n in every if n != 1] if number >= 6 else [])
            for receipt in found.values():
                assert receipt == (number, first + number + 1, (number,) * LENGTH)
        assert rows.receipts(every, [0] * n_rows) == {}
        rows.begin(0, 0, first, np.zeros(LENGTH, "<u4"))  # of another variant
        assert rows.receipts([0], [70])[0].step == first + 70

    def test_halves_of_two_keys_are_not_a_key(self, table):
        rows = table.read(names_of(1)).rows
        first, second, halves = (
            int.from_bytes(text, "little") for text in (b"aaaabbbb", b"ccccdddd", b"bbbbcccc")
        )
        for id in (first, second):
            rows.advance([0], rows.states([0]), 0, Keyed([id], [0]), np.zeros(1, FORM.output))
        assert rows.receipts([0], [halves]) == {}
        assert list(rows.receipts([0], [second])) == [0]

    def test_numbers_of_names_stay_the_same(self):
        assert (variant_of(""), variant_of("canary")) == (0, 2406531487)
        assert id_of("key") == 17675689295421930702

    def test_the_rows_of_a_call_have_the_digests_of_their_keys(self):
        assert numbered_ids("key", 12).tolist() == [id_of(f"key.{row}") for row in range(12)]
        others = ["key", "key.", "key.00", "key.01", "key.x", "key.-1", "key.1.2", ".1", "a.1"]
        all_ids = {*map(id_of, others), *numbered_ids("key", 4096).tolist()}
        assert len(all_ids) == len(others) + 4096


class TestRuns:
    async def test_runs_are_listed_by_their_latest_step(self, table):
        engine = Engine([LocalShard(table)], FORM)
        assert await engine.runs(10) == []
        for n_runs in (1, 999, 1000, 1001, 2000):
            names = names_of(*range(n_runs))
            read = table.read(names)
            for used, raw in enumerate(read.rows.raws):
                raw[24:28] = used.to_bytes(4, "little")
            table.write(names, read)
            latest = [summary.run for summary in await engine.runs(3)]
            assert latest == [f"run-{n:06}" for n in range(n_runs)][-3:][::-1]
            assert len(await engine.runs(3000)) == n_runs

    async def test_one_run_may_have_more_states_than_a_part_of_the_list(self, table):
        engine = Engine([LocalShard(table)], FORM)
        for run in ("a", "b"):
            step(table, sorted(name_of(run, f"{n}") for n in range(1500)))
        assert [len(each.steps) for each in await engine.runs(10)] == [1500, 1500]
        assert await engine.find("c") is None

    async def test_a_repeated_fork_gets_the_first_answer_without_its_source(self, table):
        engine = Engine([LocalShard(table)], FORM)
        step(table, [name_of("source", "junction")])
        assert await engine.fork("source", "fork", request_id="key") == {"junction": 1}
        await engine.reset("source")
        assert await engine.fork("source", "fork", request_id="key") == {"junction": 1}
        assert await engine.fork("source", "fork") == {}


class TestMemory:
    def test_a_state_with_64_receipts_takes_less_than_3_kb(self, open_one, folder):
        n_states, chance = 20_000, random.Random(3)
        table = open_one(POLICY, map_size=1 << 30)
        for first in range(0, n_states, 512):
            step(table, names_of(*range(first, min(first + 512, n_states))))
        for _ in range(150):
            names = names_of(*sorted(chance.sample(range(n_states), chance.choice((1, 16, 512)))))
            read = table.read(names)
            for number in range(64):
                keyed = Keyed([number + 1] * len(names), [0] * len(names))
                stepped(read, keyed=keyed, outputs=np.ones(len(names), POLICY.output))
            table.write(names, read)
            table.page.copied = table.latest()
        assert table.counts()[0] == n_states
        assert n_bytes(folder) < 3000 * n_states
        assert n_bytes(folder) < full_size(POLICY, n_states)

    def test_resets_of_runs_that_do_not_exist_leave_nothing(self, table, folder):
        number = table.latest()
        for n in range(50_000):
            table.replace(Operation("reset", f"run-{n}"), {})
        assert table.latest() == number
        for n in range(50_000):
            table.replace(Operation("reset", f"run-{n}", f"key-{n}"), {})
        assert table.counts()[0] == 0
        assert table.list() == []
        assert n_bytes(folder) < 300 * OPERATIONS

    def test_the_latest_operations_are_remembered(self, table):
        first, second = Operation("reset", "run", "first"), Operation("reset", "run", "second")
        table.replace(first, {}, 1)
        table.replace(second, {}, 2)
        for n in range(OPERATIONS - 1):
            table.replace(Operation("reset", "other", f"{n}"), {})
        assert table.operation(first) is None
        assert table.operation(second) == 2
        assert table.operation(second._replace(kind="end")) is None

    def test_batches_go_on_while_the_store_does_not_answer(self, open_one, folder):
        names = [name_of(f"a-run-with-a-usual-name-{n:05}", "junction_12") for n in range(512)]
        table = open_one(SMALL, len(names), full_size(SMALL, len(names)))
        table.page.copied = table.latest()
        step(table, names)
        for _ in range(1500):
            assert not step(table, names).refused
        assert steps_of(table, names) == [1501] * len(names)
        assert table.changed(table.page.copied)[1] is None
        latest = table.latest()
        step(table, names[:2])
        assert table.changed(latest) == (latest + 1, set(names[:2]))
