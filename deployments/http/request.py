"""What is read from ASGI requests: headers, bearer tokens, and bodies within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from hmac import compare_digest
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope

from deployments.http.errors import BodyTooLargeError, BodyTooSlowError, UnauthorizedError

BODY_TIMEOUT_S = 10.0
CROWDED_TIMEOUT_S = 1.0
AT_ONCE_S = 0.1
MAX_UNFINISHED = 1000
MAX_UNFINISHED_BYTES = 64 << 20


def header(scope: Scope, name: bytes) -> str | None:
    """Return a header by its name in lower case.

    Different values of one name are joined by commas in their order (RFC 9110, 5.3), so that
    neither counts for both, and the last stays the last.
    """
    values = [value for key, value in scope["headers"] if key == name]
    if not values:
        return None
    if len(values) > 1 and len(set(values)) > 1:
        values = [b", ".join(values)]
    return str(values[0], "latin-1")


def query_of(scope: Scope) -> list[tuple[str, str]]:
    """Return the names and values of the query, in their order."""
    query = scope["query_string"].decode("latin-1")
    return parse_qsl(query, keep_blank_values=True) if query else []


def path_of(scope: Scope) -> str:
    """Return the path of a request below the prefix of its application."""
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def client_address(scope: Scope) -> str:
    """Return the address that a request comes from, as the nearest proxy has seen it.

    The edge sets ``X-Forwarded-For``, and so must every load balancer that takes its place.
    """
    forwarded = header(scope, b"x-forwarded-for")
    if forwarded:
        return forwarded.rpartition(",")[2].strip()
    client = scope.get("client")
    return str(client[0]) if client else "unknown"


class BearerGuard:
    """Refuses requests without one of the tokens, in constant time.

    Args:
        tokens: at least one, of printable ASCII.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        if not tokens:
            raise ValueError("a guard needs a token")
        self._tokens = [token.encode("ascii") for token in tokens]

    def __call__(self, scope: Scope) -> None:
        """Check a request.

        Raises:
            UnauthorizedError: it has no token, an invalid one, or several.
        """
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) != 1 or given[0][:7].lower() != b"bearer ":
            raise UnauthorizedError("A bearer token is required")
        token = given[0][7:].strip()
        matches = [compare_digest(token, each) for each in self._tokens]
        if not any(matches):
            raise UnauthorizedError("The token is not valid")


class BodyReader:
    """Reads request bodies, and bounds what slow clients hold.

    Args:
        max_unfinished: bodies that may be arriving at the same time.
        max_bytes: that have arrived of them, together.
    """

    def __init__(
        self, max_unfinished: int = MAX_UNFINISHED, max_bytes: int = MAX_UNFINISHED_BYTES
    ) -> None:
        self._max_unfinished = max_unfinished
        self._max_bytes = max_bytes
        self._bytes = 0
        self._began: dict[asyncio.Timeout, float] = {}  # of each body that arrives, oldest first

    async def read(self, receive: Receive, limit: int) -> bytes:
        """Read a whole body.

        While this awaits a chunk, a newer body may shorten its timeout and remove it from the
        unfinished bodies: see ``_make_room``. It then ends here with a BodyTooSlowError.

        Raises:
            BodyTooLargeError: it is longer than ``limit`` bytes; the rest is not read.
            BodyTooSlowError: it did not arrive within BODY_TIMEOUT_S, or gave way to another.
            asyncio.CancelledError: the client has gone.
        """
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S) as timeout:
                if len(self._began) >= self._max_unfinished:
                    self._make_room(timeout)
                self._began[timeout] = asyncio.get_running_loop().time()
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
                        self._make_room(timeout)
        except TimeoutError:
            raise BodyTooSlowError from None
        finally:
            self._bytes -= size
            self._began.pop(timeout, None)

    def _make_room(self, newest: asyncio.Timeout) -> None:
        """End the oldest body if it is slow; if none is, let the newest arrive at once or not.

        So a body that is already there is read, however many are not.
        """
        now = asyncio.get_running_loop().time()
        oldest, began = next(iter(self._began.items()), (newest, now))
        if began <= now - CROWDED_TIMEOUT_S:
            del self._began[oldest]
            if not oldest.expired():  # in this turn; its task has not ended yet
                oldest.reschedule(now)
        else:
            ends_at = newest.when()
            assert ends_at is not None
            newest.reschedule(min(ends_at, now + AT_ONCE_S))
