"""Users: names, password hashes and scopes in the store."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from deployments.access.claims import (
    SCOPES,
    SERVICE_PREFIX,
    AccountError,
    Generation,
    check_name,
    check_scopes,
)
from deployments.access.revocations import USERS, RevisedTable, generation_of
from deployments.store import Store

MIN_PASSWORD_LENGTH, MAX_PASSWORD_LENGTH = 8, 256
# longer than JWT_EXPIRATION_MINUTES, so that no revoked token is accepted again
REMEMBERED_S = 400 * 24 * 3600


# OWASP's recommendation (Password Storage Cheat Sheet): 19 MiB, 2 passes, one lane. A login costs
# 30 ms of one core, and the memory for logins stays small.
_HASHER = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


def hash_password(password: str, salt: bytes | None = None) -> str:
    """Return the encoded hash with its parameters and salt, by default a random one."""
    return _HASHER.hash(password, salt=salt)


def matches_hash(password_hash: str, password: str) -> bool:
    """Return whether a password has this hash."""
    try:
        return _HASHER.verify(password_hash, password)
    except (VerificationError, InvalidHashError):
        return False


class Account(NamedTuple):
    """A user who may log in.

    Attributes:
        generation: of the user's tokens; a new password makes another.
    """

    password_hash: str
    scopes: tuple[str, ...]
    generation: Generation


class Users:
    """Users in a store.

    Args:
        configured: names and password hashes from the configuration; they take precedence over
            users in the store.
    """

    def __init__(self, store: Store, configured: Mapping[str, str] | None = None) -> None:
        self._table = RevisedTable(store, USERS)
        self._configured = configured or {}

    async def account(self, name: str) -> Account | None:
        """Return the user's account; None when there is no such user."""
        document = await self._table.get(name)  # always: timing must not reveal who exists
        if name in self._configured:
            password_hash = self._configured[name]
            return Account(password_hash, SCOPES, password_hash)
        fields = _read(document)
        if fields is None:
            return None
        scopes = tuple(fields.get("scopes", SCOPES))
        return Account(fields["password_hash"], scopes, fields.get("generation", 0))

    async def scopes(self) -> dict[str, tuple[str, ...]]:
        """Return the scopes of each user in the store, by name, sorted."""
        users = {name: _read(value) async for name, value in self._table.entries()}
        return {n: tuple(u.get("scopes", SCOPES)) for n, u in sorted(users.items()) if u}

    async def add(self, name: str, password: str, scopes: Iterable[str] = SCOPES) -> None:
        """Add a user with scopes."""
        check_name(name, "A user name")
        if name.startswith(SERVICE_PREFIX):
            raise AccountError(
                f"Names that begin with '{SERVICE_PREFIX}' are those of service accounts."
            )
        fields = {"password_hash": _hash(password), **_scopes(scopes)}
        before = await self._table.get(name)
        if _read(before) is not None:
            raise AccountError(f"There is a user '{name}' already.")
        await self._change(name, before, fields if before is None else _next(before, fields))

    async def set_password(self, name: str, password: str) -> None:
        """Change a user's password, which revokes the user's tokens."""
        password_hash = _hash(password)
        before, fields = await self._existing(name)
        changed = {**fields, "password_hash": password_hash}
        await self._change(name, before, _next(before, changed))

    async def set_scopes(self, name: str, scopes: Iterable[str]) -> None:
        """Change a user's scopes, which revokes the user's tokens."""
        before, fields = await self._existing(name)
        fields.pop("scopes", None)
        await self._change(name, before, _next(before, {**fields, **_scopes(scopes)}))

    async def remove(self, name: str) -> None:
        """Remove a user, and revoke the user's tokens.

        A document without a password stays for REMEMBERED_S: its generation revokes them.
        """
        before, _ = await self._existing(name)
        gone = {"password_hash": "", "removed_at": int(time.time())}
        await self._change(name, before, _next(before, gone))
        await self._table.forget(
            [other async for other, value in self._table.entries() if _is_long_gone(value)]
        )

    async def _existing(self, name: str) -> tuple[bytes, dict[str, Any]]:
        if not name.isprintable():  # bytes of a command line may not be text
            raise AccountError("A user name is printable text.")
        before = await self._table.get(name)
        fields = _read(before)
        if before is None or fields is None:
            raise AccountError(f"There is no user '{name}'.")
        return before, fields

    async def _change(self, name: str, before: bytes | None, fields: dict[str, Any]) -> None:
        if not await self._table.change(name, before, json.dumps(fields).encode()):
            raise AccountError(f"Another command has changed '{name}' at the same time; try again.")


def _read(document: bytes | None) -> dict[str, Any] | None:
    """Return a user's document; None for a removed user."""
    fields: dict[str, Any] = {} if document is None else json.loads(document)
    return fields if fields.get("password_hash") else None


def _is_long_gone(document: bytes) -> bool:
    removed_at = json.loads(document).get("removed_at")
    return removed_at is not None and removed_at < time.time() - REMEMBERED_S


def _next(before: bytes, fields: dict[str, Any]) -> dict[str, Any]:
    """Add a generation that is later than any before, also of a user removed long ago."""
    return {**fields, "generation": max(generation_of(before) + 1, time.time_ns() // 1_000_000)}


def _scopes(scopes: Iterable[str]) -> dict[str, Any]:
    named = check_scopes(scopes)
    return {} if named == SCOPES else {"scopes": named}


def _hash(password: str) -> str:
    try:
        password.encode()
    except UnicodeEncodeError:  # standard input brings other bytes as lone surrogates
        raise AccountError("A password is text in UTF-8.") from None
    if not password.strip() or not MIN_PASSWORD_LENGTH <= len(password) <= MAX_PASSWORD_LENGTH:
        raise AccountError(
            f"A password has {MIN_PASSWORD_LENGTH} to {MAX_PASSWORD_LENGTH} characters, "
            "not all of them blank."
        )
    return hash_password(password)
