"""What one home does, fault by fault, in virtual time."""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from deployments.stateful.copies import ROWS_PER_WRITE, divide
from deployments.stateful.errors import OutcomeUnknownError, UnavailableError
from deployments.stateful.options import StateOptions
from deployments.stateful.shards import (
    LAYOUT_ROW,
    LEASE_S,
    MARGIN,
    ForeignStatesError,
    copy_row,
    shard_of,
)
from deployments.stateful.table import Listed
from deployments.stateful.term import HomeRecord, SupersededError, Term
from deployments.store import StoreUnavailable
from tests.unit.stateful_home.simulated import (
    APP,
    LAYOUT,
    LOG,
    Process,
    SimulatedStore,
    World,
    now,
    row_of,
    simulate,
    store_client,
    version_of,
)

A, B = b"run\0a", b"run\0b"
RECORD = "home/0"


def simulated(test):
    def run(*arguments, **named):
        simulate(lambda: test(*arguments, **named))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


async def begin(world: World, machine: int = 0) -> tuple[Any, Process]:
    await world.agree()
    process = world.launch(world.machines[machine])
    return await world.until_acting(), process


def record(world: World) -> HomeRecord:
    return HomeRecord.unpack(world.store.rows.get(RECORD))


def copies(world: World) -> dict[str, tuple[int, int]]:
    rows = world.store.rows.items()
    return {key: version_of(row) for key, row in rows if key.startswith("s/")}


@simulated
async def test_changes_are_copied_with_the_record_and_absent_rows_are_deleted():
    world = World(SimulatedStore())
    home, process = await begin(world)
    home.table.change({A: row_of(1, 1), B: row_of(1, 1)})
    number = home.table.change({B: None})
    await asyncio.sleep(1.5)
    assert copies(world) == {copy_row(A): (1, 1)}
    assert home.table.page.copied >= record(world).copied >= number
    assert home.copy_lag_s < 1.5
    # A copy takes several writes: the record says that it is there with the last one.
    rows = {f"run{n}\0a".encode(): row_of(1, 1) for n in range(2 * ROWS_PER_WRITE)}
    number = home.table.change(rows)
    world.store.on_change = lambda puts: home.table.change({A: row_of(1, 2)})
    await home.flush()
    assert home.table.page.copied == record(world).copied == number < home.table.number
    home.table.change(dict.fromkeys(rows, row_of(1, 2)))
    world.store.on_change = lambda puts: setattr(process, "alive", len(puts) < 100)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(home.flush(), 5)
    world.store.on_change = lambda puts: None
    home, _ = await begin(world)
    await home.flush()
    assert set(copies(world).values()) == {(1, 2)}


@simulated
async def test_a_home_that_is_cut_off_stops_in_time_and_not_before():
    world = World(SimulatedStore())
    home, process = await begin(world)
    process.machine.reaches_store = False
    await asyncio.sleep(20)
    assert home.table.is_valid(), "the cluster has no other home"
    process.machine.reaches_ray = False
    await asyncio.sleep(LEASE_S / 4)
    assert home.table.is_valid()
    await asyncio.sleep(LEASE_S * 1.1)
    assert not home.table.is_valid()
    process.machine.reaches_ray = True
    await asyncio.sleep(3)
    assert home.table.is_valid()


@simulated
async def test_the_next_home_waits_for_the_lease_unless_the_first_one_left():
    for leaves, lost in ((True, 0.0), (False, 0.0), (False, 1.0)):
        world = World(SimulatedStore(), 2)
        home, process = await begin(world)
        home.table.change({A: row_of(1, 1, used=5)})
        await home.flush()
        if leaves:
            await home.leave()
            assert not home.table.is_valid()
        world.store.rows[copy_row(B)] = b"of another size"
        process.alive, world.store.lost, at = False, lost, now()
        second = world.launch(world.machines[1])
        while record(world).process != second.name:
            await asyncio.sleep(0.01)
        world.store.lost = 0.0
        taken = int(second.machine.clock())
        table: Any = (await world.until_acting()).table
        assert (now() - at >= LEASE_S * MARGIN) != leaves
        assert table.list() == [Listed(A, 1, 0, table.list()[0].used)]
        assert table.list()[0].used in (taken, taken + 1)
        assert table is not home.table
        assert record(world).term == home.term + 1 + bool(lost)


def change(table: Any, rows: dict[bytes, bytes], limit: int) -> None:
    table.change(rows)


@simulated
async def test_a_home_that_leaves_takes_everything_along_and_stays_out():
    for seed in range(8):
        world = World(SimulatedStore(seed=seed))
        home, _ = await begin(world)
        world.store.slow_s = 0.45
        # The last transaction, for which the home waits.
        home.table.set_limit = partial(change, home.table, {A: row_of(1, 1)})
        leaving = asyncio.create_task(home.leave())
        while home.table.is_valid():
            await asyncio.sleep(0.01)
        while not leaving.done():
            assert not home.table.is_valid()
            await asyncio.sleep(0.01)
        assert copies(world) == {copy_row(A): (1, 1)}
        assert record(world).process == ""

    world = World(SimulatedStore())
    home, _ = await begin(world)

    def set_limit(limit: int) -> None:
        home.table.change({A: row_of(1, 2)})
        world.store.down = True

    home.table.set_limit = set_limit
    with pytest.raises(StoreUnavailable):
        await home.leave()
    world.store.down = False
    await asyncio.sleep(3)
    assert home.table.is_valid()
    assert copies(world) == {copy_row(A): (1, 2)}


@simulated
async def test_a_home_that_ray_has_replaced_does_not_begin():
    world = World(SimulatedStore())
    await world.agree()
    process = Process(world.machines[0], "replaced")
    with pytest.raises(UnavailableError, match="another home"):
        await world.make_home(process).start()


@simulated
async def test_a_long_outage_of_the_store_delays_copies_and_nothing_else():
    for is_local in (True, False):
        options = StateOptions(snapshot_period_s=3600)
        world = World(SimulatedStore(is_local), options=options)
        home, process = await begin(world)
        world.store.down = is_local
        for step in range(1, 10 * LOG):
            home.table.change({A: row_of(1, step)})
            await asyncio.sleep(0.05)
        assert process.alive
        assert home.table.is_valid()
        assert home.copy_lag_s > 10
        world.store.down = True
        waiting = asyncio.create_task(home.copied(home.table.number))
        await asyncio.sleep(0.5)
        world.store.down = False
        await waiting
        assert copies(world) == {copy_row(A): (1, 10 * LOG - 1)}


@simulated
async def test_waiting_answers_share_writes_and_end_with_the_deadline():
    world = World(SimulatedStore(), options=StateOptions(snapshot_period_s=3600))
    home, _ = await begin(world)
    before = world.store.n_changes
    names = [f"run{n}\0a".encode() for n in range(200)]
    waiting = [home.copied(home.table.change({name: row_of(1, 1)})) for name in names]
    at = now()
    await asyncio.gather(*waiting)
    assert len(copies(world)) == 200
    assert world.store.n_changes - before <= 3
    assert now() - at < 0.1
    with pytest.raises(OutcomeUnknownError):
        await home.copied(10**9)
    world.store.down, at = True, now()
    with pytest.raises(OutcomeUnknownError):
        await home.copied(home.table.change({A: row_of(1, 1)}))
    assert 3.9 < now() - at < 4.5


@simulated
async def test_on_the_machine_with_the_files_a_store_that_has_lost_writes_is_mended():
    for kept, tag in ((False, LAYOUT.tag), (True, LAYOUT.tag), (False, "a city")):
        world = World(SimulatedStore(), 2)
        await begin(world, 1)
        home, process = await begin(world)  # in the second term
        home.table.change({A: row_of(1, 1)})
        await home.flush()
        home.table.change({A: None, B: row_of(1, 2)})
        for _ in range(2 * LOG):
            home.table.change({B: row_of(1, 2)})
        await home.flush()
        home.files.form.tag = tag
        term, process.alive = home.term, False
        lost = HomeRecord(term - 1, "another", copied=home.table.number, writes=1)
        world.store.rows = {copy_row(A): row_of(1, 1)}
        if kept:
            world.store.rows |= {RECORD: lost.pack(), LAYOUT_ROW: LAYOUT.pack()}
        home, _ = await begin(world)
        await home.flush()
        if tag == LAYOUT.tag:
            assert home.term > term
            assert copies(world) == {copy_row(B): (1, 2)}
        else:
            assert home.table.get([A, B]).keys() == {A}
        assert record(world).copied > 0


@simulated
async def test_a_home_of_another_cluster_is_left_alone_until_it_is_silent():
    world = World(SimulatedStore(), 2)
    home, process = await begin(world)
    world.store.rows[RECORD] = replace(record(world), session="another").pack()
    home._term.record = record(world)
    world.launch(world.machines[1])
    await asyncio.sleep(20)
    assert home.table.is_valid()
    assert world.home is None
    process.alive = False
    at = now()
    await world.until_acting()
    assert now() - at > 2 * LEASE_S


@simulated
async def test_a_store_that_forgets_the_present_term_ends_it():
    for doubt in (False, True):
        world = World(SimulatedStore())
        home, process = await begin(world)
        home.table.change({A: row_of(1, 1)})
        await asyncio.sleep(1.2)
        earlier = dict(world.store.rows)
        home.table.change({A: row_of(1, 2)})
        await home.flush()
        if doubt:
            world.store.late = 1.0
            home.table.change({A: row_of(1, 3)})
            with pytest.raises(StoreUnavailable):
                await home.flush()
            world.store.late = 0.0
        world.store.rows = earlier
        if doubt:
            with pytest.raises(SupersededError):
                await home._term.write({})
        await asyncio.sleep(1)
        assert not process.alive
        assert not home.table.is_valid()
        home, _ = await begin(world)
        assert home.table.page.copied <= record(world).copied
        await home.flush()
        assert copies(world) == {copy_row(A): (1, 2 + doubt)}


@simulated
async def test_only_whole_runs_are_evicted():
    world = World(SimulatedStore(), options=StateOptions(run_ttl_s=50))
    home, process = await begin(world)
    used = int(process.machine.clock())
    rows = {f"run{n}\0{e}".encode(): row_of(1, 1, used) for n in range(5) for e in "abcd"}
    home.table.change(rows)
    await asyncio.sleep(30)
    # In pages of 7 rows these runs are cut, before and after the row that is in use.
    home.table.change({b"run1\0d": row_of(1, 2, used + 30), b"run3\0a": row_of(1, 2, used + 30)})
    await asyncio.sleep(35)
    assert {name[:4] for name in home.table.rows} == {b"run1", b"run3"}
    assert len(home.table.rows) == 8
    await asyncio.sleep(60)
    assert not home.table.rows
    assert not copies(world)


def test_rows_of_a_run_are_written_together():
    names = [f"run{n % 300}\0{n}".encode() for n in range(1000)]
    large = [b"large\0%d" % n for n in range(ROWS_PER_WRITE * 2)]
    chunks = divide(names + large)
    assert sorted(name for chunk in chunks for name in chunk) == sorted(names + large)
    place = {name: number for number, chunk in enumerate(chunks) for name in chunk}
    assert len({place[name] for name in large}) == 1
    for run in range(300):
        assert len({place[name] for name in names if name.startswith(b"run%d\0" % run)}) == 1
    huge = divide([b"huge\0%d" % n for n in range(ROWS_PER_WRITE * 20)])
    assert len(huge) == 3


# Terms


@simulated
async def test_a_late_write_is_settled_before_the_next_one():
    store = SimulatedStore()
    client = store_client(store, Process(World(store).machines[0], "a process"))
    term = Term(client, APP, 0)
    found, stored = await term.read()
    await term.begin(HomeRecord(found.term + 1, "n", "a process"), stored)
    for late, lost in ((1.0, 0.0), (0.0, 1.0)):
        store.late, store.lost = late, lost
        for value in (b"1", b"2"):
            with pytest.raises(StoreUnavailable):
                await term.write({"s/x": value})
        store.late = store.lost = 0.0
        await term.write({"s/x": b"3"}, copied=3)
        await asyncio.sleep(5)
        assert store.rows["s/x"] == b"3"
        assert record_of(store) == term.record
    other = Term(client, APP, 0)
    await other.begin(HomeRecord(2, "m", "another"), store.rows[RECORD])
    assert not await term.is_mine()
    with pytest.raises(SupersededError):
        await term.write({"s/x": b"4"})
    with pytest.raises(UnavailableError):  # of two at the same time
        await term.begin(HomeRecord(3, "k", "a third"), stored)
    assert store.rows["s/x"] == b"3"


def record_of(store: SimulatedStore) -> HomeRecord:
    return HomeRecord.unpack(store.rows[RECORD])


# Layouts


@simulated
async def test_states_of_another_tag_or_form_are_refused_and_shards_change_while_no_home_acts():
    world = World(SimulatedStore())
    home, process = await begin(world)
    home.table.change({A: row_of(1, 1)})
    await home.flush()
    several = LAYOUT._replace(shards=3)
    with pytest.raises(UnavailableError, match="in use"):
        await world.agree(several)
    process.alive = False
    for other in (LAYOUT._replace(tag="a city"), LAYOUT._replace(form="f8")):
        with pytest.raises(ForeignStatesError) as refusal:
            await world.agree(other)
        assert refusal.value.found == "1 of these are kept"
    assert world.store.rows[LAYOUT_ROW] == LAYOUT.pack()
    await world.agree(several)
    process = world.launch(world.machines[0])  # of the layout before
    await asyncio.sleep(5)
    assert world.home is None
    assert not world.valid_tables()
    process.alive = False
    homes: list[Any] = []
    for shard in range(3):
        world.machines[0].files = None
        world.current = Process(world.machines[0], f"of shard {shard}")
        homes.append(world.make_home(world.current, several, shard))
        await homes[-1].start()
    rows = [set(home.table.rows) for home in homes]
    assert rows == [{A} if shard == shard_of("run", 3) else set() for shard in range(3)]


@simulated
async def test_a_layout_is_agreed_upon_once_and_obsolete_rows_are_removed():
    world = World(SimulatedStore())
    world.store.rows = {LAYOUT_ROW: b"[1, 1, {}, []]", "seat/1/0": b"", "state/x": b"old"}
    await asyncio.gather(world.agree(), world.agree(), return_exceptions=True)
    await world.agree()
    assert world.store.rows.keys() == {LAYOUT_ROW, RECORD}
