"""Random faults of machines, processes, networks and the store; promises that hold all the time."""

import asyncio
import random
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from deployments.stateful.errors import OutcomeUnknownError, StateError
from deployments.stateful.home import Home
from deployments.stateful.options import StateOptions
from deployments.stateful.shards import copy_row, name_of_copy
from deployments.store import StoreUnavailable
from tests.unit.stateful_home.simulated import (
    Machine,
    SimulatedStore,
    SimulatedTable,
    World,
    now,
    row_of,
    simulate,
    version_of,
)

SEEDS = 60
NAMES = [f"run{number // 3}\0junction{number}".encode() for number in range(12)]


class Judge:
    """Steps rows of whatever table may be used, and checks what is promised.

    Attributes:
        confirmed: version of each row that a durable answer has reported; None: its absence.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.terms: dict[SimulatedTable, int] = {}
        self.copies: dict[str, tuple[int, int]] = {}
        self.confirmed: dict[bytes, tuple[int, int]] = {}
        self.n_steps = 0
        world.store.on_change = self._see_copies
        self._tasks: set[asyncio.Task[None]] = set()

    def _see_copies(self, puts: Mapping[str, bytes]) -> None:
        for key, row in puts.items():
            if name_of_copy(key) is not None:
                version = version_of(row)
                assert version >= self.copies.get(key, (0, 0)), "an older copy replaces a newer one"
                self.copies[key] = version

    def look(self) -> None:
        """Check that one table at most may be used, and that it has what was confirmed."""
        valid = self.world.valid_tables()
        assert len(valid) <= 1, "two tables may be used"
        for table in valid:
            if table not in self.terms:
                self._begin(table)
            assert self.terms[table] == max(self.terms.values()), "an earlier table is used again"

    def _begin(self, table: SimulatedTable) -> None:
        self.terms[table] = max(self.terms.values(), default=0) + 1
        for key, version in self.copies.items():
            row = table.rows.get(name_of_copy(key) or b"")
            assert row is None or version_of(row) >= version, "a copy was not loaded"
        for name, version in self.confirmed.items():
            assert name in table.rows, "a confirmed row was not loaded"
            assert version_of(table.rows[name]) >= version, "a confirmed step was not loaded"

    def step(self, source: random.Random) -> None:
        for table in self.world.valid_tables():
            name = source.choice(NAMES)
            number = table.change({name: row_of(self.terms[table], table.number + 1)})
            self.n_steps += 1
            home = self.world.home
            if home is not None and home.table is table and source.random() < 0.3:
                version = version_of(table.rows[name])
                task = asyncio.create_task(self._confirm(home, name, number, version))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _confirm(
        self, home: Home, name: bytes, number: int, version: tuple[int, int]
    ) -> None:
        try:
            await home.copied(number)
        except OutcomeUnknownError:
            return
        stored = self.world.store.rows.get(copy_row(name))
        assert stored is not None, "a confirmed step is not in the store"
        assert version_of(stored) >= version, "a confirmed step is not in the store"
        self.confirmed[name] = max(version, self.confirmed.get(name, version))


async def play(world: World, seed: int, seconds: float = 60.0) -> Judge:
    """Let faults happen and end; at last everything works again."""
    source, judge = random.Random(seed), Judge(world)
    await world.agree()
    world.launch(world.machines[0])
    tasks = [asyncio.create_task(cluster(world, source))]
    until, store = now() + seconds, world.store
    while now() < until:
        await asyncio.sleep(source.choice((0.01, 0.05, 0.3)))
        judge.look()
        judge.step(source)
        if source.random() < 0.03:
            tasks.append(asyncio.create_task(fault(world, source)))
    store.down, store.late, store.lost, store.slow_s = False, 0.0, 0.0, 0.0
    for machine in world.machines:
        machine.reaches_store = machine.reaches_ray = True
    await asyncio.sleep(25)
    judge.look()
    home = await world.until_acting()
    judge.look()
    await home.flush()
    copies = {key: version_of(row) for key, row in store.rows.items() if name_of_copy(key)}
    table: Any = home.table
    assert copies == {copy_row(name): version_of(row) for name, row in table.rows.items()}
    for task in tasks:
        if task.done() and not task.cancelled() and task.exception():
            raise task.exception()  # type: ignore[misc]
        task.cancel()
    return judge


async def cluster(world: World, source: random.Random) -> None:
    """Start the home again when it has ended, elsewhere if its machine does not answer."""
    while True:
        await asyncio.sleep(0.5)
        process = world.current
        assert process is not None
        for other in world.processes.values():  # Ray ends what it has replaced
            other.alive = other.alive and (other is process or not other.machine.reaches_ray)
        machine = process.machine
        if machine.alive and machine.reaches_ray and process.alive:
            continue
        await asyncio.sleep(source.uniform(0.2, 3))
        if machine.alive and machine.reaches_ray:
            if not process.alive:
                world.launch(machine)
            continue
        others = [each for each in world.machines if each.alive and each.reaches_ray]
        if others:
            world.launch(source.choice(others))


async def fault(world: World, source: random.Random) -> None:
    machine, store = source.choice(world.machines), world.store
    kind = source.choice(FAULTS)
    lasts_s = source.choice((0.3, 1.0, 3.0, 8.0))
    if kind == "kill" and world.current is not None:
        world.current.alive = False
    elif kind == "crash" and len(world.machines) > 1:
        machine.alive = False
        for process in world.processes.values():
            process.alive = process.alive and process.machine is not machine
        await asyncio.sleep(lasts_s)
        machine.files = None
        machine.tables.clear()
        machine.alive = True
    elif kind == "move" and world.home is not None and world.current is not None:
        process, home = world.current, world.home
        try:
            await home.leave()
        except (StoreUnavailable, StateError):
            return
        home.files.delete()
        process.alive = False
    elif kind == "cut from store":
        await during(machine, "reaches_store", lasts_s)
    elif kind == "cut from Ray" and len(world.machines) > 1:
        await during(machine, "reaches_ray", lasts_s)
    elif kind == "cut":
        await asyncio.gather(
            during(machine, "reaches_store", lasts_s), during(machine, "reaches_ray", lasts_s)
        )
    elif kind == "outage":
        store.down = True
        await asyncio.sleep(lasts_s)
        store.down = False
    elif kind == "doubt":
        store.late, store.lost = 0.2, 0.2
        await asyncio.sleep(lasts_s)
        store.late, store.lost = 0.0, 0.0
    elif kind == "slow":
        store.slow_s = 0.49
        await asyncio.sleep(2 * lasts_s)
        store.slow_s = 0.0


FAULTS = (
    *("kill", "crash", "move", "cut", "cut from store", "cut from Ray"),
    *("outage", "doubt", "slow"),
)


async def during(machine: Machine, name: str, seconds: float) -> None:
    setattr(machine, name, False)
    await asyncio.sleep(seconds)
    setattr(machine, name, True)


@pytest.mark.parametrize("period_s", [0.2, 3.0])
def test_every_promise_holds_on_a_cluster(period_s):
    assert explore(3, StateOptions(snapshot_period_s=period_s)) > SEEDS * 100


def test_every_promise_holds_on_one_machine():
    assert explore(1, StateOptions()) > SEEDS * 200


def explore(n_machines: int, options: StateOptions) -> int:
    """Play with many seeds; return the number of steps."""
    n_steps = 0
    for seed in range(SEEDS):
        store = SimulatedStore(is_local=n_machines == 1, seed=seed)
        world = World(store, n_machines, options)
        n_steps += simulate(partial(play, world, seed)).n_steps
    return n_steps
