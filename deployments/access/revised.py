"""Tables that few change and many follow: their revision says whether there is anything to read."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator

from deployments.store import Expected, Store

REVISION = " revision"  # a key; no name begins with a space


class RevisedTable:
    """A table of the store whose every change, made through this class, gives it a new revision."""

    def __init__(self, store: Store, table: str) -> None:
        self._store = store
        self._table = table

    async def get(self, key: str) -> bytes | None:
        """Return the value under a key, or None."""
        return await self._store.get(self._table, key)

    async def revision(self) -> bytes | None:
        """Return what is another value after each change; None before the first one."""
        return await self._store.get(self._table, REVISION)

    async def change(self, key: str, before: bytes | None, after: bytes) -> bool:
        """Write a value if the one before is still there; return whether it was."""
        # in the form of a user whom no password lets in, as releases before this one read it
        revision = json.dumps({"password_hash": "", "revision": uuid.uuid4().hex}).encode()
        puts = {key: after, REVISION: revision}
        return await self._store.change(self._table, puts, when=Expected(key, before))

    async def forget(self, keys: list[str]) -> None:
        """Delete what nobody who follows needs any more."""
        if keys:
            await self._store.delete_many(self._table, keys)

    async def entries(self) -> AsyncIterator[tuple[str, bytes]]:
        """Yield every key and its value, as the table was at one moment."""
        async for key, value in self._store.scan(self._table):
            if key != REVISION:
                yield key, value
