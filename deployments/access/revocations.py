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
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from deployments.access.claims import Claims
from deployments.store import Expected, Store

REVISION = " revision"  # a key; no name begins with a space


class RevisedTable:
    """A table of the store that gets a new revision with each change through this class."""

    def __init__(self, store: Store, table: str) -> None:
        self._store = store
        self._table = table

    async def get(self, key: str) -> bytes | None:
        """Return the value of a key, or None."""
        return await self._store.get(self._table, key)

    async def revision(self) -> bytes | None:
        """Return the revision; None before the first change."""
        return await self._store.get(self._table, REVISION)

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


class Revocations:
    """All rules, as of the last refresh.

    Args:
        clock: monotonic, in seconds.
    """

    def __init__(
        self, rules: Sequence[TableRule], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rules = rules
        self._clock = clock
        self._fresh_until = -math.inf

    def are_fresh(self) -> bool:
        """Return whether all revocations that are older than STALE_S are known."""
        return self._clock() < self._fresh_until

    async def refresh(self) -> bool:
        """Read the rules; return whether any has changed.

        Raises:
            StoreUnavailable: they stay as they are.
        """
        began = self._clock()
        changed = await asyncio.gather(*(rule.refresh() for rule in self._rules))
        self._fresh_until = began + STALE_S
        return any(changed)

    def revoke(self, token: Claims) -> bool:
        """Return whether any rule revokes a token."""
        return any(rule.revokes(token) for rule in self._rules)


class TableRule(ABC):
    """Revokes tokens by a table, which is read again when its revision has changed."""

    def __init__(self, store: Store, table: str) -> None:
        self._table = RevisedTable(store, table)
        self._revision: bytes | None = None

    async def refresh(self) -> bool:
        """Read the table if it has changed; return whether it has."""
        revision = await self._table.revision()
        if revision == self._revision:
            return False
        self.learn({key: value async for key, value in self._table.entries()})
        self._revision = revision  # of before the read: later changes are read again
        return True

    @abstractmethod
    def learn(self, documents: dict[str, bytes]) -> None:
        """Take the contents of the table."""

    @abstractmethod
    def revokes(self, token: Claims) -> bool:
        """Return whether a token is revoked."""


class UserRule(TableRule):
    """Revokes the tokens of users with a later generation, or with another configured password.

    Args:
        configured: names and password hashes from the configuration.
    """

    def __init__(self, store: Store, configured: Mapping[str, str]) -> None:
        super().__init__(store, USERS)
        self._configured = configured
        self._generations: dict[str, int] = {}

    def learn(self, documents: dict[str, bytes]) -> None:
        found = {name: generation_of(value) for name, value in documents.items()}
        # 0 before the first change: no token has an earlier generation
        self._generations = {name: number for name, number in found.items() if number}

    def revokes(self, token: Claims) -> bool:
        if isinstance(token.generation, str):
            password = self._configured.get(token.subject)
            return password is None or token.key.seal(password) != token.generation
        if token.subject in self._configured:
            return False
        return (token.generation or 0) < self._generations.get(token.subject, 0)


def generation_of(user: bytes) -> int:
    """Return the generation in a user's document; 0 before the first change."""
    return int(json.loads(user).get("generation", 0))
