"""A store in memory, for what asks it in virtual time: whether it serves is up to the test."""

from collections.abc import AsyncIterator
from typing import cast

from deployments.store import Expected, Store, StoreUnavailable
from deployments.store.interface import ALWAYS, Keys, Puts


class MemoryStore:
    """The part of a store that knows documents without an index.

    Attributes:
        serves: otherwise every call fails.
        calls: made so far.
    """

    def __init__(self) -> None:
        self.serves = True
        self.calls = 0
        self._tables: dict[str, dict[str, bytes]] = {}

    def as_store(self) -> Store:
        return cast(Store, self)

    def table(self, name: str) -> dict[str, bytes]:
        self.calls += 1
        if not self.serves:
            raise StoreUnavailable("out of reach")
        return self._tables.setdefault(name, {})

    async def get(self, table: str, key: str) -> bytes | None:
        return self.table(table).get(key)

    async def change(
        self, table: str, puts: Puts, deletes: Keys = (), *, when: Expected = ALWAYS
    ) -> bool:
        documents = self.table(table)
        if documents.get(when.key) != when.value:
            return False
        for key in set(deletes) - puts.keys():
            documents.pop(key, None)
        documents.update(puts)
        return True

    async def scan(self, table: str) -> AsyncIterator[tuple[str, bytes]]:
        for key, value in list(self.table(table).items()):
            yield key, value

    async def close(self) -> None: ...
