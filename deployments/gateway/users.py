"""Who may log in: names and password hashes in the store."""

from __future__ import annotations

import json
from collections.abc import Mapping

from deployments.gateway.passwords import hash_password
from deployments.store import Document, DocumentNotFound, DuplicateDocument, Store

TABLE = "gateway_users"
MAX_NAME_LENGTH = 64
MIN_PASSWORD_LENGTH, MAX_PASSWORD_LENGTH = 8, 256


class UserError(Exception):
    """A user cannot be added, found or changed; the message says why."""


class Users:
    """Users in a store.

    Args:
        configured: names and password hashes that come from the configuration, not from the store;
            they go before users of the same name.
    """

    def __init__(self, store: Store, configured: Mapping[str, str] | None = None) -> None:
        self._store = store
        self._configured = configured or {}

    async def password_hash(self, name: str) -> str | None:
        """Return the hash of the user's password, None when there is no such user."""
        document = await self._store.get(TABLE, name)  # always: the time must not tell who exists
        if name in self._configured:
            return self._configured[name]
        return None if document is None else str(json.loads(document)["password_hash"])

    async def names(self) -> list[str]:
        """Return the names of the users in the store, sorted."""
        return sorted([name async for name, _ in self._store.scan(TABLE)])

    async def add(self, name: str, password: str) -> None:
        _check_name(name)
        try:
            await self._store.create(TABLE, _document(name, password))
        except DuplicateDocument:
            raise UserError(f"There is a user '{name}' already.") from None

    async def set_password(self, name: str, password: str) -> None:
        try:
            await self._store.replace(TABLE, _document(name, password))
        except DocumentNotFound:
            raise UserError(f"There is no user '{name}'.") from None

    async def remove(self, name: str) -> None:
        """Remove a user, whose tokens stay valid until they expire."""
        if not await self._store.delete_many(TABLE, [name]):
            raise UserError(f"There is no user '{name}'.")


def _check_name(name: str) -> None:
    if not name.strip() or name != name.strip() or not name.isprintable():
        raise UserError("A user name is printable text without spaces at its ends.")
    if len(name) > MAX_NAME_LENGTH:
        raise UserError(f"A user name has at most {MAX_NAME_LENGTH} characters.")


def _document(name: str, password: str) -> Document:
    try:
        password.encode()
    except UnicodeEncodeError:  # standard input brings other bytes as lone surrogates
        raise UserError("A password is text in UTF-8.") from None
    if not password.strip() or not MIN_PASSWORD_LENGTH <= len(password) <= MAX_PASSWORD_LENGTH:
        raise UserError(
            f"A password has {MIN_PASSWORD_LENGTH} to {MAX_PASSWORD_LENGTH} characters, "
            "not all of them blank."
        )
    return Document(name, json.dumps({"password_hash": hash_password(password)}).encode())
