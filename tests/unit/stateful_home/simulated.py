"""Machines, homes, a store and a cluster in virtual time, with faults.

A process that is dead or cut off waits for ever at its next call; nothing of it is cleaned up.
"""

from __future__ import annotations

import asyncio
import mmap
import random
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

from deployments.stateful.errors import StateError, UnavailableError
from deployments.stateful.home import Home
from deployments.stateful.options import StateOptions
from deployments.stateful.page import Page
from deployments.stateful.row import RowForm
from deployments.stateful.shards import Layout, agree_on_layout
from deployments.stateful.table import Listed, Table
from deployments.store import Expected, Store, StoreUnavailable
from deployments.store.interface import ALWAYS
from tests.support.virtual_time import VirtualTimeLoop

T = TypeVar("T")

FORM = RowForm(np.dtype("f4"), np.dtype([("action", "u1")]))
LAYOUT = Layout(1, "a town", str(FORM))
APP = "states:app"
DEADLINE_S = 1.5
LOG = 40
LOG_BYTES = LOG * 16  # less than so many entries


def simulate(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in virtual time."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="greenwave-test-") as folder:
        SimulatedTable.folder = Path(folder)
        try:
            return _simulate(work)
        finally:
            while SimulatedTable.opened:
                SimulatedTable.opened.pop().close()


def _simulate(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    loop = VirtualTimeLoop()
    defects, tasks = list[str](), list[asyncio.Task[Any]]()

    def keep(loop: Any, work: Any, **named: Any) -> asyncio.Task[Any]:
        tasks.append(asyncio.Task(work, loop=loop, **named))
        return tasks[-1]  # those of dead processes are not for the garbage

    loop.set_task_factory(keep)
    loop.set_exception_handler(lambda _, context: defects.append(str(context)))
    try:
        result = loop.run_until_complete(asyncio.wait_for(work(), 10_000))
        assert not defects, defects
        return result
    finally:
        loop.set_exception_handler(lambda *_: None)
        while waiting := asyncio.all_tasks(loop):
            for task in waiting:
                task.cancel()
            loop.run_until_complete(asyncio.wait(waiting, timeout=10))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def now() -> float:
    return asyncio.get_running_loop().time()


def row_of(life: int, step: int, used: int = 0) -> bytes:
    row = np.zeros(1, FORM.dtype)
    row["life"], row["step"], row["used"] = life, step, used
    return row.tobytes()


def version_of(row: bytes) -> tuple[int, int]:
    (made,) = FORM.rows(row)
    return int(made["life"]), int(made["step"])


class SimulatedPage(Page):
    """The page of a table, with a short log, for processes with the clock of a machine."""

    SIZE = mmap.PAGESIZE + LOG_BYTES

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        with path.open("wb") as file:
            file.truncate(self.SIZE)
        super().__init__(path)
        self._clock = clock

    def is_valid(self) -> bool:
        return self._clock() < self.valid_until

    def require_valid(self) -> None:
        if not self.is_valid():
            raise UnavailableError("the term has ended")


class SimulatedTable(Table):
    """A table whose rows have as life the term of their writer."""

    folder: ClassVar[Path]
    opened: ClassVar[list[Table]] = []

    def __init__(self, clock: Callable[[], float]) -> None:
        path = self.folder / str(len(self.opened))
        page = SimulatedPage(path.with_suffix(".page"), clock)
        super().__init__(path, page, FORM, 1 << 24)
        self.is_valid = page.is_valid
        self.opened.append(self)

    @property
    def number(self) -> int:
        return self.latest()

    @property
    def rows(self) -> dict[bytes, bytes]:
        return self.get([row.name for row in super().list()])

    def change(self, changes: Mapping[bytes, bytes | None]) -> int:
        with self._env.begin(write=True) as txn:
            number: int = txn.id()
            more = sum(row is not None for row in changes.values())
            for name, row in changes.items():
                more -= txn.delete(name)
                if row is not None:
                    txn.put(name, row)
            self._count(txn, self._counts(txn), more)
            self.page.note(number, list(changes))
        return number

    def list(self, after: bytes = b"", limit: int = 7) -> list[Listed]:
        return super().list(after, limit)

    def keep_reserve(self) -> None: ...


class FakeFiles:
    """As :class:`deployments.stateful.files.OwnedFiles`, on one machine."""

    def __init__(self, machine: Machine, owner: Process) -> None:
        self._machine = machine
        self.owner = owner
        self.begin_anew()

    def begin_anew(self) -> None:
        self._machine.world.n_tables += 1
        nonce = str(self._machine.world.n_tables)
        self.form: Any = SimpleNamespace(nonce=nonce, term=0, tag=LAYOUT.tag)
        self.table, self.is_new = SimulatedTable(self._machine.clock), True
        self._machine.tables.append(self.table)

    def remember_term(self, term: int) -> None:
        self.form.term = term

    def delete(self) -> None:
        self.table.page.valid_until = 0.0
        self._machine.files = None


@dataclass
class Machine:
    """A machine with a clock of its own.

    Attributes:
        tables: that processes of it have mapped, whether these still have a file or not.
    """

    world: World
    name: str
    rate: float = 1.0
    ahead_s: float = 0.0
    alive: bool = True
    reaches_store: bool = True
    reaches_ray: bool = True
    files: FakeFiles | None = None
    tables: list[SimulatedTable] = field(default_factory=list)

    def clock(self) -> float:
        return self.ahead_s + now() * self.rate


@dataclass
class Process:
    """A process of the home, and its view of store and cluster."""

    machine: Machine
    name: str
    alive: bool = True

    async def lives(self) -> None:
        if not (self.alive and self.machine.alive):
            await asyncio.Event().wait()


class SimulatedStore:
    """Rows, and the faults of their server.

    Attributes:
        lost, late: chance that the answer to a change is lost, and that it is made after its caller
            has got an error.
        slow_s: longest further time that an answer takes.
    """

    def __init__(self, is_local: bool = False, seed: int = 0) -> None:
        self.is_local = is_local
        self.identity = "simulated"
        self.rows: dict[str, bytes] = {}
        self.down = False
        self.lost = self.late = self.slow_s = 0.0
        self.random = random.Random(seed)
        self.n_changes = 0
        self.on_change: Callable[[Mapping[str, bytes]], None] = lambda puts: None

    def change(self, puts: Mapping[str, bytes], deletes: Collection[str], when: Expected) -> bool:
        if self.rows.get(when.key) != when.value:
            return False
        self.on_change(puts)
        for key in deletes:
            self.rows.pop(key, None)
        self.rows.update(puts)
        self.n_changes += 1
        return True


def store_client(store: SimulatedStore, process: Process) -> Store:
    """Return the store as one process sees it."""
    return cast("Store", _StoreClient(store, process))


class _StoreClient:
    """The methods of a store that the engine uses."""

    def __init__(self, store: SimulatedStore, process: Process) -> None:
        self._store, self._process = store, process
        self.is_local, self.identity = store.is_local, store.identity

    async def _reach(self) -> None:
        await self._process.lives()
        await asyncio.sleep(self._store.random.uniform(0.0005, 0.01))
        if self._store.down or not self._process.machine.reaches_store:
            await asyncio.sleep(DEADLINE_S)
            await self._process.lives()
            raise StoreUnavailable("no answer")

    async def get(self, table: str, key: str) -> bytes | None:
        await self._reach()
        value = self._store.rows.get(key)
        await asyncio.sleep(self._store.random.uniform(0.001, self._store.slow_s))
        await self._process.lives()
        return value

    async def change(
        self,
        table: str,
        puts: Mapping[str, bytes],
        deletes: Collection[str] = (),
        *,
        when: Expected = ALWAYS,
    ) -> bool:
        store, puts, deletes = self._store, dict(puts), list(deletes)
        await self._reach()
        chance = store.random.random()
        if chance < store.late:
            delay = store.random.uniform(0, 3)
            asyncio.get_running_loop().call_later(delay, store.change, puts, deletes, when)
            raise StoreUnavailable("late")
        held = store.change(puts, deletes, when)
        if chance < store.late + store.lost:
            raise StoreUnavailable("the answer is lost")
        await asyncio.sleep(self._store.random.uniform(0.001, self._store.slow_s))
        await self._process.lives()
        return held

    async def scan(self, table: str) -> AsyncIterator[tuple[str, bytes]]:
        await self._reach()
        for number, item in enumerate(list(self._store.rows.items())):
            if number % 5 == 4:
                await self._reach()
            yield item


class ClusterView:
    """The cluster, as one process sees it."""

    session = "session"

    def __init__(self, world: World, process: Process) -> None:
        self._world, self._process = world, process
        self.process = process.name

    async def has_ended(self, name: str) -> bool:
        await self._process.lives()
        other = self._world.processes[name]
        return other.machine is self._process.machine and not other.alive

    async def is_current(self) -> bool:
        await self._process.lives()
        await asyncio.sleep(0.005)
        if not self._process.machine.reaches_ray:
            await asyncio.sleep(0.5)
            raise UnavailableError("no answer")
        return self._world.current is self._process


class World:
    """A cluster that keeps one home for shard 0, and the store."""

    def __init__(
        self, store: SimulatedStore, n_machines: int = 1, options: StateOptions | None = None
    ) -> None:
        self.store = store
        self.options = options or StateOptions()
        self.random = store.random
        self.n_tables = 0
        self.processes: dict[str, Process] = {}
        self.current: Process | None = None
        self.home: Home | None = None
        self.machines = [
            Machine(self, str(number), self.random.uniform(0.98, 1.02), self.random.uniform(0, 99))
            for number in range(n_machines)
        ]

    async def agree(self, layout: Layout = LAYOUT) -> None:
        process = Process(self.machines[0], "replica")
        client, view = store_client(self.store, process), ClusterView(self, process)

        async def dismiss(present: Layout, shard: int, leaves: bool) -> None: ...

        await agree_on_layout(client, APP, layout, dismiss, view.has_ended)

    def launch(self, machine: Machine) -> Process:
        """Start the home's process on a machine; it is current from now on."""
        process = Process(machine, f"process {len(self.processes)}")
        self.processes[process.name] = process
        self.current, self.home = process, None
        asyncio.get_running_loop().create_task(self._run(process))
        return process

    def open_files(self, process: Process) -> Any:
        files = process.machine.files
        if files is None:
            files = process.machine.files = FakeFiles(process.machine, process)
        elif files.owner.alive:
            raise UnavailableError("the files are locked")
        else:
            files.owner, files.is_new = process, False
        return files

    def make_home(self, process: Process, layout: Layout = LAYOUT, shard: int = 0) -> Home:
        async def in_thread(work: Callable[..., Any], *arguments: Any) -> Any:
            await asyncio.sleep(self.random.choice((0, 0.0001, 0.002)))
            await process.lives()
            return work(*arguments)

        def end(error: BaseException) -> None:
            process.alive = False

        files = self.open_files(process)
        client, view = store_client(self.store, process), ClusterView(self, process)
        at = APP, layout, shard, self.options, view, end, in_thread, process.machine.clock
        return Home(files, client, *at)

    async def _run(self, process: Process) -> None:
        home: Home | None = None
        while process.alive:
            try:
                home = home or self.make_home(process)
                await home.start()
                if self.current is process:
                    self.home = home
                return
            except (StoreUnavailable, StateError):
                await asyncio.sleep(0.2)
                await process.lives()

    def valid_tables(self) -> list[SimulatedTable]:
        return [
            table
            for machine in self.machines
            if machine.alive
            for table in machine.tables
            if table.is_valid()
        ]

    async def until_acting(self) -> Home:
        async with asyncio.timeout(30):
            while self.home is None or not self.home.table.is_valid():  # type: ignore[attr-defined]
                await asyncio.sleep(0.01)
        return self.home
