"""Which tokens count no more: read from the store once a second, and looked up in memory.

A user has a generation, a number that grows with each new password and with the user's removal, and
a token has that of its login. A token of an earlier generation is revoked. So neither the clocks of
the nodes matter, nor what a replica has not read yet: a token of a later generation than it knows
is good.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Protocol

from deployments.access.claims import Verified
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


STALE_S = 5.0  # after which what was read is not vouched for
USERS = "gateway_users"


class Rule(Protocol):
    """Something that revokes tokens, known in memory."""

    async def refresh(self) -> bool:
        """Read it from the store; return whether it has changed."""

    def revokes(self, token: Verified) -> bool:
        """Tell whether a token counts no more."""


class Revocations:
    """All rules, as they were a moment ago.

    Args:
        clock: monotonic, in seconds.
    """

    def __init__(self, rules: Sequence[Rule], clock: Callable[[], float] = time.monotonic) -> None:
        self._rules = rules
        self._clock = clock
        self._fresh_until = -math.inf

    def are_fresh(self) -> bool:
        """Tell whether all that was revoked more than STALE_S ago is known here."""
        return self._clock() < self._fresh_until

    async def refresh(self) -> bool:
        """Read what has changed; return whether anything has.

        Raises:
            StoreUnavailable: the store does not serve; what was known still is.
        """
        began = self._clock()
        changed = await asyncio.gather(*(rule.refresh() for rule in self._rules))
        self._fresh_until = began + STALE_S
        return any(changed)

    def revoke(self, token: Verified) -> bool:
        """Tell whether any of them revokes a token."""
        return any(rule.revokes(token) for rule in self._rules)


class TableRule(ABC):
    """Revokes tokens by what a table says, which is read again when its revision has changed."""

    def __init__(self, store: Store, table: str) -> None:
        self._table = RevisedTable(store, table)
        self._revision: bytes | None = None

    async def refresh(self) -> bool:
        revision = await self._table.revision()
        if revision == self._revision:
            return False
        self.learn({key: value async for key, value in self._table.entries()})
        self._revision = revision  # as of before it was read: what came meanwhile is read again
        return True

    @abstractmethod
    def learn(self, documents: dict[str, bytes]) -> None:
        """Take note of the whole table."""

    @abstractmethod
    def revokes(self, token: Verified) -> bool:
        """Tell whether a token counts no more."""


class UserRule(TableRule):
    """Revokes the tokens of users who have another password since, or are no more.

    Args:
        configured: users of the configuration, and what is kept of their passwords.
    """

    def __init__(self, store: Store, configured: Mapping[str, str]) -> None:
        super().__init__(store, USERS)
        self._configured = configured
        self._generations: dict[str, int] = {}

    def learn(self, documents: dict[str, bytes]) -> None:
        found = {name: generation_of(value) for name, value in documents.items()}
        # those who never changed have none, and no token is of an earlier one
        self._generations = {name: number for name, number in found.items() if number}

    def revokes(self, token: Verified) -> bool:
        if isinstance(token.generation, str):
            password = self._configured.get(token.subject)
            return password is None or token.key.seal(password) != token.generation
        if token.subject in self._configured:
            return False
        return (token.generation or 0) < self._generations.get(token.subject, 0)


def generation_of(user: bytes) -> int:
    """Return the generation in a user's document; 0 before the first change."""
    return int(json.loads(user).get("generation", 0))
