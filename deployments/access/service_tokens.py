"""Long-lived, revocable tokens of service accounts, for machines.

The store has the name of a token (``jti``) and its account, never the token itself. A revoked token
stays in the store until it expires.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace

from deployments.access.claims import SERVICE_PREFIX, AccountError, check_name, check_scopes
from deployments.access.keys import Keys
from deployments.access.revocations import SERVICE_TOKENS, RevisedTable
from deployments.access.tokens import Tokens
from deployments.store import Store

MAX_TOKENS = 1000
MAX_DAYS = 3650
_DAY_S = 24 * 3600
_SKEW_S = 60.0  # between the clocks of two nodes, at most


@dataclass(frozen=True)
class ServiceToken:
    """A token as the store has it. Times are seconds since the Unix epoch.

    Attributes:
        kid: of the key that signed it.
        revoked_at: None while it is valid.
    """

    name: str
    scopes: tuple[str, ...]
    kid: str
    created_at: int
    expires_at: int
    revoked_at: int | None = None


class ServiceTokens:
    """The tokens of service accounts in a store.

    Args:
        clock: seconds since the Unix epoch.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._table = RevisedTable(store, SERVICE_TOKENS)
        self._clock = clock

    async def all(self) -> dict[str, ServiceToken]:
        """Return the tokens that have not expired, by name, the oldest first."""
        tokens = {key: _read(value) async for key, value in self._table.entries()}
        living = [each for each in tokens.items() if not self._has_expired(each[1])]
        return dict(sorted(living, key=lambda each: (each[1].created_at, each[0])))

    async def create(
        self, keys: Keys, name: str, days: int, scopes: Iterable[str] = ("act",)
    ) -> tuple[str, str]:
        """Create a token; return its name and the token, which is not stored.

        Args:
            name: of the service account.
            days: until it expires.

        Raises:
            AccountError: an argument is invalid, there are too many tokens, or the signing
                key expires earlier.
        """
        check_name(name, "The name of a service account")
        if not 1 <= days <= MAX_DAYS:
            raise AccountError(f"A token lives 1 to {MAX_DAYS} days.")
        named = check_scopes(scopes)
        await self._forget_expired()
        if len(await self.all()) >= MAX_TOKENS:
            raise AccountError(f"There are {MAX_TOKENS} tokens already; revoked ones count.")
        now = int(self._clock())
        key = keys.signing(now)
        if key.verifies_until < now + days * _DAY_S:
            raise AccountError(
                "The key that signs at present ends before the token would; a new one signs soon "
                "(`greenwave keys list`). Try again then."
            )
        tokens = Tokens(keys, days * _DAY_S, _SKEW_S, lambda: now)
        token = tokens.issue(SERVICE_PREFIX + name, named)
        token_id = str(tokens.verify(token).token_id)
        kept = ServiceToken(name, named, key.kid, now, now + days * _DAY_S)
        await self._table.change(token_id, None, _write(kept))
        return token_id, token

    async def revoke(self, which: str) -> int:
        """Revoke a token by its name, or all tokens of a service account; return how many.

        Raises:
            AccountError: there is no such valid token.
        """
        living = {key: token for key, token in (await self.all()).items() if not token.revoked_at}
        chosen = [which] if which in living else [k for k, t in living.items() if t.name == which]
        if not chosen:
            raise AccountError(f"There is no token, and no service account, '{which}'.")
        for token_id in chosen:
            before, now = living[token_id], int(self._clock())
            changed = _write(replace(before, revoked_at=now))
            await self._table.change(token_id, _write(before), changed)  # or another command has
        await self._forget_expired()
        return len(chosen)

    async def ends_of_keys(self) -> dict[str, float]:
        """Return when the last valid token of each key expires."""
        ends: dict[str, float] = {}
        for token in (await self.all()).values():
            if not token.revoked_at:
                ends[token.kid] = max(ends.get(token.kid, 0.0), token.expires_at + _SKEW_S)
        return ends

    async def _forget_expired(self) -> None:
        await self._table.forget(
            [key async for key, value in self._table.entries() if self._has_expired(_read(value))]
        )

    def _has_expired(self, token: ServiceToken) -> bool:
        return token.expires_at + _SKEW_S < self._clock()


def _read(document: bytes) -> ServiceToken:
    fields = json.loads(document)
    return ServiceToken(**{**fields, "scopes": tuple(fields["scopes"])})


def _write(token: ServiceToken) -> bytes:
    return json.dumps(asdict(token)).encode()
