"""A store in memory, as slow and as unreliable as a test wants it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, field

from deployments.store import Expected, StoreUnavailable


@dataclass
class MemoryStore:
    """Implements :class:`deployments.stateful.layout.StateStore`.

    Attributes:
        latency_s: of a call, there and back each half of it.
        down: every call fails, after ``down_after_s``.
        lost_reply: chance that a change is made, and its caller told that the store fails.
        late: chance that a change is made ``late_s`` after its caller was told that it fails.
        tables: rows by table.
        changes: number of those that were made.
    """

    random: random.Random = field(default_factory=lambda: random.Random(0))
    latency_s: tuple[float, float] = (0.0002, 0.001)
    down: bool = False
    down_after_s: float = 0.0
    lost_reply: float = 0.0
    late: float = 0.0
    late_s: float = 1.0
    tables: dict[str, dict[str, bytes]] = field(default_factory=dict)
    changes: int = 0
    doubts: int = 0

    async def get(self, table: str, key: str) -> bytes | None:
        await self._travel()
        value = self.tables.get(table, {}).get(key)
        await self._travel()
        return value

    async def change(
        self,
        table: str,
        puts: Mapping[str, bytes],
        deletes: Collection[str] = (),
        *,
        when: Expected,
    ) -> bool:
        await self._travel()
        if self.random.random() < self.late:
            self.doubts += 1
            loop = asyncio.get_running_loop()
            arguments = (table, dict(puts), list(deletes), when)
            loop.call_later(self.random.uniform(0, self.late_s), self._change, *arguments)
            raise StoreUnavailable("no answer yet")
        held = self._change(table, puts, deletes, when)
        if self.random.random() < self.lost_reply:
            self.doubts += 1
            raise StoreUnavailable("the answer was lost")
        await self._travel()
        return held

    def _change(
        self, table: str, puts: Mapping[str, bytes], deletes: Collection[str], when: Expected
    ) -> bool:
        rows = self.tables.setdefault(table, {})
        if rows.get(when.key) != when.value:
            return False
        for key in deletes:
            rows.pop(key, None)
        rows.update(puts)
        self.changes += 1
        return True

    async def scan(self, table: str) -> AsyncIterator[tuple[str, bytes]]:
        await self._travel()
        for row in list(self.tables.get(table, {}).items()):
            yield row

    async def _travel(self) -> None:
        await asyncio.sleep(self.random.uniform(*self.latency_s) / 2)
        if self.down:
            await asyncio.sleep(self.down_after_s)
            raise StoreUnavailable("the store is down")
