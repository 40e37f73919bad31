"""Reads ASGI requests: a header, and a body within bounds of size and time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from hmac import compare_digest

from starlette.types import Receive, Scope

from deployments.http.errors import BodyTooLargeError, BodyTooSlowError, UnauthorizedError

BODY_TIMEOUT_S = 10.0
CROWDED_TIMEOUT_S = 1.0
AT_ONCE_S = 0.1
MAX_UNFINISHED = 1000
MAX_UNFINISHED_BYTES = 64 << 20


def header(scope: Scope, name: bytes) -> str | None:
    """Return a header by its name in lower case.

    Different values of one name are joined by commas in their order (RFC 9110, 5.3): no one of
    them may count for both, and the last stays the last.
    """
    values = [value for key, value in scope["headers"] if key == name]
    if not values:
        return None
    if len(values) > 1 and len(set(values)) > 1:
        values = [b", ".join(values)]
    return str(values[0], "latin-1")


def client_address(scope: Scope, trust_forwarded_for: bool) -> str:
    """Return the address that a request comes from.

    Args:
        trust_forwarded_for: take what the nearest proxy has seen, from ``X-Forwarded-For``.
    """
    forwarded = header(scope, b"x-forwarded-for") if trust_forwarded_for else None
    if forwarded:
        return forwarded.rpartition(",")[2].strip()
    client = scope.get("client")
    return str(client[0]) if client else "unknown"


class Bodies:
    """Reads bodies, and keeps what slow clients hold within bounds.

    Beyond the bounds, the oldest is given up for the newest once it has had CROWDED_TIMEOUT_S.
    Until then the newest has AT_ONCE_S, so that a body that is there is read however many are not.

    Args:
        max_unfinished: bodies that may be on their way at once, without what comes in AT_ONCE_S.
        max_bytes: of what has arrived of them, together.
    """

    def __init__(
        self, max_unfinished: int = MAX_UNFINISHED, max_bytes: int = MAX_UNFINISHED_BYTES
    ) -> None:
        self._max_unfinished = max_unfinished
        self._max_bytes = max_bytes
        self._bytes = 0
        self._unfinished: dict[asyncio.Timeout, None] = {}  # the oldest first

    async def read(self, receive: Receive, limit: int) -> bytes:
        """Read a whole body.

        Raises:
            BodyTooLargeError: it is longer than ``limit`` bytes; the rest is not read.
            BodyTooSlowError: it did not arrive in BODY_TIMEOUT_S seconds, or sooner in a crowd.
            asyncio.CancelledError: the client has gone.
        """
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S) as patience:
                if len(self._unfinished) >= self._max_unfinished:
                    self._make_room(patience)
                self._unfinished[patience] = None
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise asyncio.CancelledError
                    chunk: bytes = message.get("body", b"")
                    if size + len(chunk) > limit:
                        raise BodyTooLargeError(limit)
                    if not message.get("more_body", False):
                        return b"".join(chunks) + chunk if chunks else chunk
                    size += len(chunk)
                    self._bytes += len(chunk)
                    chunks.append(chunk)
                    if self._bytes > self._max_bytes:
                        self._make_room(patience)
        except TimeoutError:
            raise BodyTooSlowError from None
        finally:
            self._bytes -= size
            self._unfinished.pop(patience, None)

    def _make_room(self, newest: asyncio.Timeout) -> None:
        """Give up the oldest body; while that is not slow either, have the newest come at once."""
        now = asyncio.get_running_loop().time()
        oldest = next(iter(self._unfinished), newest)
        if _ends_at(oldest) <= now + BODY_TIMEOUT_S - CROWDED_TIMEOUT_S:
            self._unfinished.pop(oldest, None)
            oldest.reschedule(now)
        else:
            newest.reschedule(min(now + AT_ONCE_S, _ends_at(newest)))


def _ends_at(patience: asyncio.Timeout) -> float:
    ends_at = patience.when()
    assert ends_at is not None
    return ends_at


class BearerGuard:
    """Refuses requests without one of the tokens; how long that takes tells nothing of them.

    Args:
        tokens: one at least, of printable ASCII.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        if not tokens:
            raise ValueError("a guard needs a token")
        self._tokens = [token.encode("ascii") for token in tokens]

    def __call__(self, scope: Scope) -> None:
        """Let a request pass.

        Raises:
            UnauthorizedError: it has no token, or not the right one, or several.
        """
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) != 1 or given[0][:7].lower() != b"bearer ":
            raise UnauthorizedError("A bearer token is required")
        token = given[0][7:].strip()
        matches = [compare_digest(token, each) for each in self._tokens]
        if not any(matches):
            raise UnauthorizedError("The token is not valid")
