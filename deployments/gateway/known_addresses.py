"""From where a user has logged in before, so that strangers cannot lock the user out there."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import time
from collections.abc import Callable

from deployments.store import Expected, Store

TABLE = "gateway_known_addresses"
MOST = 16  # addresses of a user; the one that was used longest ago gives way
KNOWN_S = 30 * 24 * 3600  # since the last login
_RENEWED_S = 24 * 3600  # so that not every login is a write


class KnownAddresses:
    """Addresses in a store, by user. A new password makes all of them strange again.

    Args:
        clock: seconds since the Unix epoch.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    async def find(self, name: str) -> Addresses:
        """Return what is known of a user; as fast where there is no such user."""
        return Addresses(await self._store.get(TABLE, _key(name)))

    async def remember(self, name: str, found: Addresses, address: str, password_hash: str) -> None:
        """Take note of a login, if it is news."""
        now = int(self._clock())
        seen = found.seen(password_hash)
        if now - seen.get(address, 0) < _RENEWED_S:
            return
        newest = sorted({**seen, address: now}.items(), key=lambda each: -each[1])[:MOST]
        document = {"password": _mark(password_hash), "seen": dict(newest)}
        after = json.dumps(document).encode()
        # another login at the same moment goes first; the next one of this address will do
        await self._store.change(
            TABLE, {_key(name): after}, when=Expected(_key(name), found.document)
        )

    def are_known(self, found: Addresses, address: str, password_hash: str | None) -> bool:
        """Tell whether the user has logged in from an address, with the present password."""
        if password_hash is None:
            return False
        return self._clock() - found.seen(password_hash).get(address, 0) < KNOWN_S

    async def forget(self, name: str) -> None:
        """Drop what is known of a user."""
        await self._store.delete_many(TABLE, [_key(name)])


class Addresses:
    """What was kept of a user's addresses."""

    def __init__(self, document: bytes | None) -> None:
        self.document = document

    def seen(self, password_hash: str) -> dict[str, int]:
        """Return when each was last used with this password."""
        fields = json.loads(self.document or b"{}")
        return dict(fields["seen"]) if fields.get("password") == _mark(password_hash) else {}


def place_of(address: str) -> str:
    """Return what counts as one address: of IPv6 the network of 64 bits, as one client has it."""
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
