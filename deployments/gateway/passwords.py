"""Password hashes with Argon2id (RFC 9106), computed in a few threads."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from deployments.gateway.errors import UnavailableError

# OWASP's recommendation (Password Storage Cheat Sheet): 19 MiB, 2 passes, one lane. A login costs
# 30 ms of one core, and the memory for logins stays small.
_HASHER = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


def hash_password(password: str, salt: bytes | None = None) -> str:
    """Return the encoded hash with its parameters and salt, by default a random one."""
    return _HASHER.hash(password, salt=salt)


def _matches(password_hash: str, password: str) -> bool:
    try:
        return _HASHER.verify(password_hash, password)
    except (VerificationError, InvalidHashError):
        return False


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
                self._threads, _matches, password_hash or self._unknown_hash, password
            )
        finally:
            self._waiting -= 1
        return matches and password_hash is not None

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
