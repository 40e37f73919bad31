"""The store: one table on a server, and what a process sees of it through the network."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from deployments.stateful.authority.snapshots import _HEADER, key_of
from deployments.stateful.protocol import Key
from deployments.store import Expected, StoreUnavailable
from tests.unit.stateful.simulation.loop import SimulatedLoop
from tests.unit.stateful.simulation.network import STORE, Network

DEADLINE_S = 0.3
SLOWEST_S = 0.25  # of a call while the store is slow


@dataclass
class Store:
    """The rows, and the faults of their server.

    Attributes:
        down: every call fails.
        slow_s: longest further delay of a call.
        before, after, late: chance that a change fails before it is made, after it was made, or
            that it is made after its caller received an error.
        late_s: shortest and longest delay of late changes.
        journal: time of each change of a row, and what the row was before.
        starts: of the server; a call that is under way during one fails.
        on_snapshot: is called with the bytes of each state that is written, None if erased.
        on_reset: is called with the run of each reset that is written.
        on_record: is called with the row of a condition, before and after the change.
    """

    loop: SimulatedLoop
    random: random.Random
    down: bool = False
    slow_s: float = 0.0
    before: float = 0.0
    after: float = 0.0
    late: float = 0.0
    late_s: tuple[float, float] = (0.0, 1.0)
    starts: int = 0
    rows: dict[str, bytes] = field(default_factory=dict)
    journal: list[tuple[float, str, bytes | None]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    on_snapshot: Callable[[Key, bytes | None], None] = lambda key, state: None
    on_reset: Callable[[str], None] = lambda run: None
    on_record: Callable[[str, bytes, bytes], None] = lambda row, before, after: None

    def _put(self, row: str, value: bytes | None) -> None:
        before = self.rows.pop(row, None)
        if value is not None:
            self.rows[row] = value
        if before != value:
            self.journal.append((self.loop.now, row, before))
            if (key := key_of(row)) is not None:
                self.on_snapshot(key, None if value is None else value[_HEADER.size :])

    def roll_back(self, to: float) -> bool:
        """Lose what was written since a moment; return False if nothing was."""
        lost = [each for each in self.journal if each[0] > to]
        for _, row, before in reversed(lost):
            self._put(row, before)
        self.starts += 1
        return bool(lost)

    def change(self, puts: Mapping[str, bytes], deletes: Collection[str], when: Expected) -> bool:
        if self.rows.get(when.key) != when.value:
            return False
        for row in deletes:
            self._put(row, None)
        for row, value in puts.items():
            self._put(row, value)
            if row.startswith("reset/"):
                self.on_reset(row.split("/", 3)[3])
        self.counts["changes"] += 1
        if when.key in puts:
            self.on_record(when.key, when.value or b"", puts[when.key])
        return True


class StoreClient:
    """Implements :class:`deployments.stateful.layout.StateStore` for one process.

    Args:
        name: of the process in the network.
        on_scan: is called when the server reads the table for this process.
    """

    def __init__(
        self,
        store: Store,
        network: Network,
        name: str,
        on_scan: Callable[[], None] = lambda: None,
    ) -> None:
        self._store, self._network, self._name = store, network, name
        self._loop = store.loop
        self._on_scan = on_scan

    async def get(self, table: str, key: str) -> bytes | None:
        value: bytes | None = await self._call(lambda: self._store.rows.get(key))
        return value

    async def change(
        self,
        table: str,
        puts: Mapping[str, bytes],
        deletes: Collection[str] = (),
        *,
        when: Expected,
    ) -> bool:
        arguments = dict(puts), list(deletes), when
        done: bool = await self._call(lambda: self._store.change(*arguments), is_change=True)
        return done

    async def scan(self, table: str) -> AsyncIterator[tuple[str, bytes]]:
        for row in await self._call(self._scan):
            yield row

    def _scan(self) -> list[tuple[str, bytes]]:
        self._on_scan()
        return list(self._store.rows.items())

    async def _call(self, work: Callable[[], Any], is_change: bool = False) -> Any:
        loop, store, network = self._loop, self._store, self._network
        response: Any = loop.create_future()
        caller, starts = loop.current, store.starts

        def fail(reason: str) -> None:
            if not response.done():
                response.set_exception(StoreUnavailable(reason))

        def succeed(value: Any) -> None:
            if not response.done():
                response.set_result(value)

        def reply(settle: Callable[[Any], None], value: Any) -> None:
            loop.post(caller, network.delay() / 2, settle, value)

        def serve() -> None:
            if store.down or store.starts != starts:
                store.counts["down"] += 1
                reply(fail, "the store is down")
                return
            chance = store.random.random() if is_change else 1.0
            if chance < store.before:
                store.counts["failed before"] += 1
                reply(fail, "before the change")
            elif (chance := chance - store.before) < store.after:
                store.counts["failed after"] += 1
                work()
                reply(fail, "after the change")
            elif chance - store.after < store.late:
                store.counts["made late"] += 1
                reply(fail, "no response yet")
                loop.post(loop.environment, store.random.uniform(*store.late_s), work)
            else:
                value = work()
                if network.passes(STORE, self._name):
                    reply(succeed, value)

        if network.passes(self._name, STORE):
            slow = store.random.random() * store.slow_s
            loop.post(loop.environment, network.delay() / 2 + slow, serve)
        elif network.silent[self._name, STORE] <= 0:
            loop.call_later(network.delay(), fail, "no connection")
        deadline = loop.call_later(DEADLINE_S, fail, "no response in time")
        try:
            return await response
        finally:
            deadline.cancel()
