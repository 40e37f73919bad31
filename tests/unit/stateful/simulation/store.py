"""The store as its own process sees it, and what authorities see of it through a network."""

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
from tests.unit.stateful.simulation.network import Network

DEADLINE_S = 0.3
SLOWEST_S = 0.25  # of a call while the store is slow
NAME = "store"


@dataclass
class Store:
    """The one true table, and the faults of its server.

    Attributes:
        down: every call fails.
        slow_s: longest further delay of a call.
        before, after, late: chance that a change fails before it is made, after it was made, or
            is made after its caller was told that it failed.
        on_copy: told the number of each state whose copy is written, None for an erased one.
    """

    loop: SimulatedLoop
    random: random.Random
    down: bool = False
    slow_s: float = 0.0
    before: float = 0.0
    after: float = 0.0
    late: float = 0.0
    epoch: int = 0  # grows with each restart: calls under way are dropped
    rows: dict[str, bytes] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    on_copy: Callable[[Key, int], None] = lambda key, number: None
    number: Callable[[bytes], int] = lambda state: 0

    def change(self, puts: Mapping[str, bytes], deletes: Collection[str], when: Expected) -> bool:
        if self.rows.get(when.key) != when.value:
            return False
        for row in deletes:
            if self.rows.pop(row, None) is not None and (key := key_of(row)) is not None:
                self.on_copy(key, 0)
        for row, value in puts.items():
            self.rows[row] = value
            if (key := key_of(row)) is not None:
                self.on_copy(key, self.number(value[_HEADER.size :]))
        self.counts["changes"] += 1
        return True


class StoreClient:
    """Implements :class:`deployments.stateful.layout.StateStore` for one process.

    Args:
        name: of the process, by which the network can cut it off from the store.
        on_scan: called when the store reads the table for this process.
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
        held: bool = await self._call(lambda: self._store.change(*arguments), is_change=True)
        return held

    async def scan(self, table: str) -> AsyncIterator[tuple[str, bytes]]:
        for row in await self._call(self._scan):
            yield row

    def _scan(self) -> list[tuple[str, bytes]]:
        self._on_scan()
        return list(self._store.rows.items())

    async def _call(self, work: Callable[[], Any], is_change: bool = False) -> Any:
        loop, store, network = self._loop, self._store, self._network
        answer = loop.create_future()
        caller = loop.current
        epoch = store.epoch

        def fail(reason: str) -> None:
            if not answer.done():
                answer.set_exception(StoreUnavailable(reason))

        def succeed(value: Any) -> None:
            if not answer.done():
                answer.set_result(value)

        def tell(value: Any) -> None:
            if network.passes(NAME, self._name):
                loop.post(caller, network.delay() / 2, succeed, value)

        def serve() -> None:
            if store.down or store.epoch != epoch:
                store.counts["down"] += 1
                loop.post(caller, network.delay() / 2, fail, "it is down")
                return
            chance = store.random.random() if is_change else 1.0
            if chance < store.before:
                store.counts["failed before"] += 1
                loop.post(caller, network.delay() / 2, fail, "before the change")
            elif (chance := chance - store.before) < store.after:
                store.counts["failed after"] += 1
                work()
                loop.post(caller, network.delay() / 2, fail, "after the change")
            elif chance - store.after < store.late:
                store.counts["made late"] += 1
                loop.post(caller, network.delay() / 2, fail, "no answer yet")
                loop.post(loop.world, store.random.random(), work)
            else:
                tell(work())

        if network.passes(self._name, NAME):
            slow = store.random.random() * store.slow_s
            loop.post(loop.world, network.delay() / 2 + slow, serve)
        elif network.silent[self._name, NAME] <= 0:
            loop.call_later(network.delay(), fail, "no connection")
        deadline = loop.call_later(DEADLINE_S, fail, "no answer in time")
        try:
            return await answer
        finally:
            deadline.cancel()
