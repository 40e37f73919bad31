"""Revocations: read from the store once a second, and looked up in memory.

A user has a generation, a number that grows with each new password, change of scopes and removal.
A token carries the generation of its login, and is revoked when a later one is known. So the clocks
of the nodes do not matter, and a token of a generation that a replica has not read yet is valid.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from itertools import starmap

from deployments.access.claims import Claims
from deployments.store import Expected, Store

REVISION = " revision"  # a key; no name begins with a space


class RevisedTable:
    """A table of the store that gets a new revision with each change through this class."""

    def __init__(self, store: Store, table: str) -> None:
        self._store = store
        self._table = table
        self._seen: bytes | None = None

    async def get(self, key: str) -> bytes | None:
        """Return the value of a key, or None."""
        return await self._store.get(self._table, key)

    async def changes(self) -> dict[str, bytes] | None:
        """Return the contents if they have changed since the last call, else None."""
        revision = await self.get(REVISION)
        if revision == self._seen:
            return None
        contents = {key: value async for key, value in self.entries()}
        self._seen = revision  # of before the read: later changes are read again
        return contents

    async def change(self, key: str, before: bytes | None, after: bytes) -> bool:
        """Replace a value, unless it has changed meanwhile; return whether it was replaced."""
        # earlier releases read the revision as a user, whom no password lets in
        revision = json.dumps({"password_hash": "", "revision": uuid.uuid4().hex}).encode()
        puts = {key: after, REVISION: revision}
        return await self._store.change(self._table, puts, when=Expected(key, before))

    async def forget(self, keys: list[str]) -> None:
        """Delete values without a new revision."""
        if keys:
            await self._store.change(self._table, {}, keys)

    async def entries(self) -> AsyncIterator[tuple[str, bytes]]:
        """Yield every key and its value, of one moment."""
        async for key, value in self._store.scan(self._table):
            if key != REVISION:
                yield key, value


STALE_S = 5.0  # since the last successful read
USERS = "gateway_users"
SERVICE_TOKENS = "gateway_service_tokens"

_Learn = Callable[[dict[str, bytes]], None]


class Revocations:
    """The revocations in a store, as of the last refresh.

    Revoked are the tokens of users with a later generation, or with another configured password,
    and the service tokens that are revoked in the store.

    Args:
        store: None where nothing is revoked.
        configured: names and password hashes from the configuration.
        clock: monotonic, in seconds.
    """

    def __init__(
        self,
        store: Store | None = None,
        configured: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._configured = configured or {}
        self._clock = clock
        self._fresh_until = -math.inf
        self._generations: dict[str, int] = {}
        self._revoked: frozenset[str] = frozenset()
        self._tables: list[tuple[RevisedTable, _Learn]] = []
        if store is not None:
            self._tables.append((RevisedTable(store, USERS), self._learn_users))
            self._tables.append((RevisedTable(store, SERVICE_TOKENS), self._learn_service_tokens))

    def are_fresh(self) -> bool:
        """Return whether all revocations that are older than STALE_S are known."""
        return self._clock() < self._fresh_until

    async def refresh(self) -> bool:
        """Read the tables that have changed; return whether any has.

        Raises:
            StoreUnavailable: they stay as they are.
        """
        began = self._clock()
        changed = await asyncio.gather(*starmap(self._read, self._tables))
        self._fresh_until = began + STALE_S
        return any(changed)

    async def _read(self, table: RevisedTable, learn: _Learn) -> bool:
        contents = await table.changes()
        if contents is not None:
            learn(contents)
        return contents is not None

    def _learn_users(self, users: dict[str, bytes]) -> None:
        found = {name: generation_of(value) for name, value in users.items()}
        # 0 before the first change: no token has an earlier generation
        self._generations = {name: number for name, number in found.items() if number}

    def _learn_service_tokens(self, tokens: dict[str, bytes]) -> None:
        revoked = (key for key, value in tokens.items() if json.loads(value).get("revoked_at"))
        self._revoked = frozenset(revoked)

    def revoke(self, token: Claims) -> bool:
        """Return whether a token is revoked."""
        if not self._tables:
            return False
        if token.token_id in self._revoked:
            return True
        if isinstance(token.generation, str):
            password = self._configured.get(token.subject)
            return password is None or token.key.seal(password) != token.generation
        if token.subject in self._configured:
            return False
        return (token.generation or 0) < self._generations.get(token.subject, 0)


def generation_of(user: bytes) -> int:
    """Return the generation in a user's document; 0 before the first change."""
    return int(json.loads(user).get("generation", 0))
