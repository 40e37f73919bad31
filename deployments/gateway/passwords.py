"""Password hashes with Argon2id (RFC 9106), computed off the event loop and a few at a time."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from deployments.gateway.errors import UnavailableError

# OWASP's recommendation (Password Storage Cheat Sheet): 19 MiB, 2 passes, one lane. One login
# costs some 30 ms of one core, and a replica's memory for logins has a small bound.
_HASHER = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


def hash_password(password: str, salt: bytes | None = None) -> str:
    """Return the encoded hash, with its salt, by default one of its own, and parameters in it."""
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
        max_waiting: logins in work or waiting; one more is refused. A quarter of the places is for
            those who go first.
    """

    def __init__(self, concurrency: int = 2, max_waiting: int = 32) -> None:
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix="passwords")
        self._max_waiting = max_waiting
        self._waiting = 0
        self._hash_of_nobody = hash_password("nobody has this password")

    async def verify(
        self, password_hash: str | None, password: str, *, first: bool = False
    ) -> bool:
        """Tell whether the password is the right one.

        Args:
            password_hash: None for an unknown user, who takes as long as a wrong password.
            first: whether somebody known asks, who finds a place when strangers have all theirs.

        Raises:
            UnavailableError: too many logins at once.
        """
        most = self._max_waiting if first else self._max_waiting - self._max_waiting // 4
        if self._waiting >= most:
            raise UnavailableError("Too many logins at once")
        self._waiting += 1
        try:
            matches = await asyncio.get_running_loop().run_in_executor(
                self._threads, _matches, password_hash or self._hash_of_nobody, password
            )
        finally:
            self._waiting -= 1
        return matches and password_hash is not None

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
