"""Logins: limited attempts, then the password, then a token."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import json
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from deployments.access.tokens import Tokens
from deployments.gateway.errors import BadRequestError, UnavailableError
from deployments.gateway.users import Users, hash_password, matches_hash
from deployments.http.errors import RefusedError, UnauthorizedError
from deployments.store import Store, StoreUnavailable


class PasswordVerifier:
    """Verifies passwords in threads.

    Args:
        concurrency: hashes computed at once.
        max_waiting: logins at work or waiting; a quarter of the places is for known addresses.
    """

    def __init__(self, concurrency: int = 2, max_waiting: int = 32) -> None:
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix="passwords")
        self._max_waiting = max_waiting
        self._waiting = 0
        self._unknown_hash = hash_password("of an unknown user")

    async def verify(
        self, password_hash: str | None, password: str, *, first: bool = False
    ) -> bool:
        """Return whether the password is right.

        Args:
            password_hash: None for an unknown user, which takes as long as a wrong password.
            first: whether the login comes from a known address.

        Raises:
            UnavailableError: too many logins at once.
        """
        most = self._max_waiting if first else self._max_waiting - self._max_waiting // 4
        if self._waiting >= most:
            raise UnavailableError("Too many logins at once")
        self._waiting += 1
        try:
            matches = await asyncio.get_running_loop().run_in_executor(
                self._threads, matches_hash, password_hash or self._unknown_hash, password
            )
        finally:
            self._waiting -= 1
        return matches and password_hash is not None

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class LoginLimits(NamedTuple):
    """Rate limits of logins, within a window that begins with the first login.

    Attributes:
        per_user: of one user name, until a success. Each known address has a separate count.
        per_address: whatever the outcome; many users may share an address.
    """

    per_user: int = 10
    per_address: int = 300
    window_s: int = 60


LIMITS = LoginLimits()
KNOWN_S = 30 * 24 * 3600  # an address, since the user's last login there


class Logins:
    """Exchanges credentials for tokens.

    Attempts are counted in the store before the password is verified, so that neither simultaneous
    requests nor several replicas allow more guesses. Attempts from an address where the user has
    logged in with the present password have a separate count, which guesses from elsewhere do not
    use up.
    """

    def __init__(
        self,
        store: Store,
        users: Users,
        tokens: Tokens,
        limits: LoginLimits = LIMITS,
        passwords: PasswordVerifier | None = None,
    ) -> None:
        self._store = store
        self._users = users
        self._tokens = tokens
        self._limits = limits
        self._passwords = passwords or PasswordVerifier()

    async def login(self, username: object, password: object, address: str) -> str:
        """Return an access token.

        Raises:
            BadRequestError: name or password is blank or missing.
            UnauthorizedError: name or password is wrong.
            RefusedError: 429 when a rate limit is reached.
            UnavailableError: too many logins at once, or the store does not answer.
        """
        if not _is_text(username) or not _is_text(password):
            raise BadRequestError("Username and password are required")
        try:
            return await self._login(str(username), str(password), place_of(address))
        except StoreUnavailable as error:
            raise UnavailableError("Logins are not possible at the moment") from error

    async def _login(self, username: str, password: str, address: str) -> str:
        account = await self._users.account(username)
        password_hash = account and account.password_hash
        login_counter = _counter("known", json.dumps([address, username, password_hash]))
        known = await self._store.count(login_counter) > 0
        user_counter = _counter("user", username)
        if known:
            user_counter = _counter("user at", json.dumps([address, username]))
        try:
            await asyncio.gather(
                self._count(user_counter, self._limits.per_user),
                self._count(_counter("address", address), self._limits.per_address),
            )
            matches = await self._passwords.verify(password_hash, password, first=known)
            if account is None or not matches:
                raise UnauthorizedError("Invalid username or password")
        except RefusedError as error:
            # an unknown name may be a password that was typed into the wrong field
            error.subject = username if account is not None else ""
            raise
        await asyncio.gather(self._store.reset(user_counter), self._store.reset(login_counter))
        await self._store.increment(login_counter, KNOWN_S)
        return self._tokens.issue(username, account.scopes, account.generation)

    async def _count(self, counter: str, limit: int) -> None:
        window_s = self._limits.window_s
        if await self._store.increment(counter, window_s) > limit:
            why = "Too many login attempts; try again later"
            raise RefusedError(why, 429, retry_after_s=window_s)

    async def close(self) -> None:
        self._passwords.close()
        await self._store.close()


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _counter(kind: str, name: str) -> str:
    """Return the name of a counter: a hash, which reveals nothing of the input."""
    return f"login:{kind}:{hashlib.sha256(name.encode()).hexdigest()}"


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
