"""One authority for tests that call it as replicas do."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import numpy as np

from deployments.stateful.authority.authority import StateAuthority
from deployments.stateful.layout import LAYOUT_ROW, Partition, StateStore, agree_on_layout
from deployments.stateful.options import StateOptions
from deployments.stateful.protocol import (
    AuthorityUnavailableError,
    Claimed,
    ClaimPart,
    Grant,
    Hello,
    Key,
    Receipt,
    StateBatch,
    Version,
)
from tests.support.states import DictStore
from tests.unit.stateful.simulation.actors import TABLE as TABLE
from tests.unit.stateful.simulation.loop import SimulatedLoop
from tests.unit.stateful.simulation.network import Network
from tests.unit.stateful.simulation.store import Store, StoreClient
from tests.unit.stateful.simulation.times import OPTIONS as OPTIONS

STATE_BYTES = 512
CALLS = count(1)


def options(**changes: Any) -> StateOptions:
    """Return the options of the simulation with some changed, in or out of range."""
    assert changes.keys() <= StateOptions.model_fields.keys()
    return OPTIONS.model_copy(update=changes)


def now() -> float:
    return asyncio.get_running_loop().time()


class FaultyStore(StoreClient):
    """The simulated store with its network, in a test without other processes."""

    def __init__(self) -> None:
        loop, rng = asyncio.get_running_loop(), random.Random(0)
        assert isinstance(loop, SimulatedLoop), "a simulated test"
        self.server, self.network = Store(loop, rng), Network(loop, rng)
        super().__init__(self.server, self.network, "test")

    @property
    def rows(self) -> dict[str, bytes]:
        return self.server.rows

    @property
    def snapshots(self) -> set[str]:
        return {row for row in self.rows if row.startswith("copy/")}

    @property
    def latency_s(self) -> float:
        return self.network.latency_s[0]

    @latency_s.setter
    def latency_s(self, seconds: float) -> None:
        self.network.latency_s = (seconds, seconds)


class InterruptedStore(DictStore):
    """A store to which something happens between a look at the layout and the next step.

    Attributes:
        after_a_look: what happens, once.
    """

    after_a_look: Callable[[], Awaitable[None]] | None = None

    async def get(self, table: str, key: str) -> bytes | None:
        value = await super().get(table, key)
        if self.after_a_look is not None and key == LAYOUT_ROW:
            happens, self.after_a_look = self.after_a_look, None
            await happens()
        return value


class FakeCluster:
    """A cluster as one authority sees it.

    Attributes:
        dead, ended: replicas, and processes of authorities, that are known to be dead.
        current: whether the cluster knows this process; None: it does not respond.
        responds_after_s: delay of that response.
        retire_calls: partitions of earlier layouts.
        notes: what the cluster remembers.
    """

    def __init__(self, session: str = "first", process: str = "node/1/1") -> None:
        self.session = session
        self.process = process
        self.dead: set[str] = set()
        self.ended: set[str] = set()
        self.current: bool | None = True
        self.responds_after_s = 0.0
        self.retire_calls: list[Partition] = []
        self.notes: dict[str, str] = {}

    async def is_alive(self, replica: str) -> bool:
        await asyncio.sleep(0.001)
        return replica not in self.dead

    async def has_ended(self, process: str) -> bool:
        return process in self.ended

    async def is_current(self) -> bool:
        return await self._respond()

    async def _respond(self) -> bool:
        await asyncio.sleep(self.responds_after_s)
        if self.current is None:
            raise AuthorityUnavailableError("the cluster does not respond")
        return self.current

    async def note(self, name: str, value: str) -> str:
        await self._respond()
        return self.notes.setdefault(name, value)

    async def noted(self, prefix: str) -> list[str]:
        await self._respond()
        return [each for each in self.notes if each.startswith(prefix)]

    async def retire(self, partition: Partition) -> None:
        self.retire_calls.append(partition)


class NumberingAuthority(StateAuthority):
    """Numbers the calls that a test does not number."""

    async def checkout(self, session: int, key: Key, call: int | None = None) -> Grant:
        return await super().checkout(session, key, call or next(CALLS))

    async def commit(
        self, session: int, states: StateBatch, released: list[Key], call: int | None = None
    ) -> list[Key]:
        return await super().commit(session, states, released, call or next(CALLS))

    async def reset(self, session: int, run: str, call: int | None = None) -> None:
        await super().reset(session, run, call or next(CALLS))

    async def write(
        self, session: int, run: str, states: StateBatch, call: int | None = None
    ) -> None:
        await super().write(session, run, states, call or next(CALLS))


async def make_authority(
    options: StateOptions = OPTIONS,
    store: StateStore | None = None,
    cluster: FakeCluster | None = None,
    partition: Partition | None = None,
    on_end: Callable[[BaseException], None] = lambda error: None,
) -> NumberingAuthority:
    """Return an authority, which acquires its partition at the first call."""
    store = store or DictStore()
    if partition is None:
        partition = (await agree_on_layout(store, TABLE, options, "test")).partitions[0]
    cluster = cluster or FakeCluster()
    return NumberingAuthority(
        options, store, TABLE, partition, cluster, STATE_BYTES, on_end, clock=now
    )


async def next_term(
    store: StateStore,
    options: StateOptions = OPTIONS,
    on_end: Callable[[BaseException], None] = lambda error: None,
) -> NumberingAuthority:
    """Return an authority whose predecessor is known to have ended."""
    cluster = FakeCluster(process="node/2/2")
    cluster.ended = {"node/1/1"}
    return await make_authority(options, store, cluster, on_end=on_end)


def batch(key: Key, version: Version, fill: float = 1.0, *receipts: Receipt) -> StateBatch:
    states = np.full((1, STATE_BYTES // 4), fill, np.float32).view(np.uint8)
    return StateBatch([key], [version], states, {key: receipts} if receipts else {})


def value_of(state: bytes | None) -> float | None:
    """Return what a state of `batch` was filled with, None for the initial state."""
    return None if state is None else float(np.frombuffer(state, np.float32)[0])


async def claim(
    authority: StateAuthority, replica: str, part: ClaimPart | None = None, generation: int = 1
) -> tuple[int, Claimed]:
    """Open a session with a claim; return its number and the response to the claim."""
    opened = await authority.open_session(Hello(replica, generation))
    return opened.session, await authority.claim(opened.session, part or ClaimPart())


async def join(authority: StateAuthority, replica: str, part: ClaimPart | None = None) -> int:
    """Open a session with a claim, and return its number."""
    session, _ = await claim(authority, replica, part)
    return session


def keep(authority: StateAuthority, session: int) -> asyncio.Task[None]:
    """Renew the lease of a session until it ends."""

    async def listen() -> None:
        while True:
            await authority.listen(session)
            await asyncio.sleep(0.01)

    return asyncio.ensure_future(listen())
