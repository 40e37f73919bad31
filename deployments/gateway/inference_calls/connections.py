"""HTTP/1.1 over connections that are kept open: what a call of the inference service needs of it.

A decision costs the gateway one such exchange, and a client for everything spends more on it than
the gateway on all else. An answer is parsed by llhttp, the parser of Node.js, as requests are.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple, cast
from urllib.parse import urlsplit

import httptools

MAX_CONNECTIONS = 256  # more exchanges wait, within the deadline of their callers
IDLE_S = 4.0  # uvicorn closes idle connections after 5 s, and a POST may not be sent twice
MAX_ANSWER = 4 << 20  # bytes; the longest answer, of a thousand items, has some 100 kB


class Response(NamedTuple):
    """An answer. Names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class Origin(NamedTuple):
    """A server."""

    host: str
    port: int
    tls: bool


class Connections:
    """Connections to servers, each for one exchange at a time."""

    def __init__(self) -> None:
        self._idle: dict[Origin, list[_Connection]] = {}
        self._places = asyncio.Semaphore(MAX_CONNECTIONS)

    async def exchange(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> Response:
        """Send a request and return what is answered, whatever its status.

        A redirect is an answer as well. It has no deadline: cancelling it ends its connection.

        Raises:
            ConnectionError: the connection ended before the answer did, or the answer is too long
                or no HTTP; the server may have heard the request.
            OSError: there is no connection, so it has not.
            ValueError: a header that is none.
        """
        origin, host, path = _parts(url)
        request = _request(method, path, host, headers, body)
        async with self._places:
            connection = self._kept(origin) or await _connect(origin)
            try:
                response = await connection.ask(request)
            except BaseException:
                connection.abort()
                raise
            if connection.reusable:
                self._idle.setdefault(origin, []).append(connection)
            return response

    def _kept(self, origin: Origin) -> _Connection | None:
        """Return the connection that was used last, so that those not needed grow old."""
        idle = self._idle.get(origin, [])
        since = asyncio.get_running_loop().time() - IDLE_S
        while idle:
            connection = idle.pop()
            if connection.reusable and connection.used_at > since:
                return connection
            connection.abort()
        return None

    def close(self) -> None:
        for idle in self._idle.values():
            for connection in idle:
                connection.abort()
        self._idle.clear()


class _Connection(asyncio.Protocol):
    """One connection, on which one answer at a time is awaited."""

    def __init__(self) -> None:
        self.used_at = 0.0
        self.reusable = True
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Response] | None = None

    async def ask(self, request: bytes) -> Response:
        if self._transport is None or self._transport.is_closing():
            raise ConnectionError("the connection has ended")
        self._answer = self._loop.create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._length = 0
        self._in_body = False
        self._transport.write(request)
        return await self._answer

    def abort(self) -> None:
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():  # nothing was asked
            self.abort()
            return
        self._length += len(data)
        if self._length > MAX_ANSWER:
            self._fail("the answer is too long")
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(f"the answer is no HTTP: {error}")

    def eof_received(self) -> None:
        """End an answer that says in no other way where it ends (RFC 9112, 6.3)."""
        told = {"content-length", "transfer-encoding"}
        if self._answer is not None and self._in_body and not told & self._headers.keys():
            self.on_message_complete()

    def connection_lost(self, error: Exception | None) -> None:
        self._fail("the connection has ended" if error is None else str(error))

    def _fail(self, why: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError(why))
        self.abort()

    # What the parser calls

    def on_message_begin(self) -> None:
        if self._answer is None or self._answer.done():  # nothing was asked
            self.abort()
            self._headers, self._body = {}, []

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._in_body = True

    def on_body(self, part: bytes) -> None:
        self._body.append(part)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # the answer is still to come
            self._headers.clear()
            self._in_body = False
            return
        self.used_at = self._loop.time()
        if not self._parser.should_keep_alive():
            self.abort()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(Response(status, self._headers, b"".join(self._body)))


async def _connect(origin: Origin) -> _Connection:
    context = _tls() if origin.tls else None
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(_Connection, origin.host, origin.port, ssl=context)
    return connection


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


@lru_cache(maxsize=64)
def _parts(url: str) -> tuple[Origin, str, str]:
    """Return the server of a URL, the header ``Host`` for it, and the path."""
    parts = urlsplit(url)
    tls = parts.scheme == "https"
    origin = Origin(parts.hostname or "", parts.port or (443 if tls else 80), tls)
    return origin, parts.netloc.rpartition("@")[2], parts.path or "/"


def _request(
    method: str, path: str, host: str, headers: Mapping[str, str], body: bytes | None
) -> bytes:
    fields = {"Host": host, **headers}
    if body is not None or method == "POST":
        fields["Content-Length"] = str(len(body or b""))
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    if not lines.count("\n") == lines.count("\r") == len(fields):
        raise ValueError("a header has a line break")
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + (body or b"")
