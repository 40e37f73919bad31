"""Addresses from which users have logged in, so that others cannot lock them out there."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import time
from collections.abc import Callable

from deployments.store import Expected, Store

TABLE = "gateway_known_addresses"
MAX_ADDRESSES = 16  # of a user; the least recently used one is removed
KNOWN_S = 30 * 24 * 3600  # since the last login
_RENEWED_S = 24 * 3600  # so that not every login is a write


class KnownAddresses:
    """Addresses in a store, by user. A new password makes all of them unknown.

    Args:
        clock: seconds since the Unix epoch.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    async def find(self, name: str) -> Addresses:
        """Return a user's addresses, in the same time for an unknown user."""
        return Addresses(await self._store.get(TABLE, _key(name)))

    async def remember(self, name: str, found: Addresses, address: str, password_hash: str) -> None:
        """Note a login, at most once a day for an address."""
        now = int(self._clock())
        seen = found.seen(password_hash)
        if now - seen.get(address, 0) < _RENEWED_S:
            return
        newest = sorted({**seen, address: now}.items(), key=lambda each: -each[1])[:MAX_ADDRESSES]
        document = {"password": _mark(password_hash), "seen": dict(newest)}
        after = json.dumps(document).encode()
        # if another login wins the race, the next one from this address is noted
        await self._store.change(
            TABLE, {_key(name): after}, when=Expected(_key(name), found.document)
        )

    def are_known(self, found: Addresses, address: str, password_hash: str | None) -> bool:
        """Return whether the user has logged in from an address with the present password."""
        if password_hash is None:
            return False
        return self._clock() - found.seen(password_hash).get(address, 0) < KNOWN_S

    async def forget(self, name: str) -> None:
        """Remove a user's addresses."""
        await self._store.delete_many(TABLE, [_key(name)])


class Addresses:
    """A user's addresses, as they are stored."""

    def __init__(self, document: bytes | None) -> None:
        self.document = document

    def seen(self, password_hash: str) -> dict[str, int]:
        """Return when each was last used with a password."""
        fields = json.loads(self.document or b"{}")
        return dict(fields["seen"]) if fields.get("password") == _mark(password_hash) else {}


def place_of(address: str) -> str:
    """Return what counts as one address: for IPv6, the network of 64 bits that one client has."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:64]
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((int(parsed), 64), strict=False))
    return str(parsed)


def _key(name: str) -> str:
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()


def _mark(password_hash: str) -> str:
    return hashlib.sha256(password_hash.encode()).hexdigest()[:16]
