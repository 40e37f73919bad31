"""An HTTP/1.1 client with persistent connections, for calls of the inference service.

Each decision costs the gateway one exchange; a general HTTP client takes longer for it than the
gateway for all else. Responses are parsed by llhttp, the parser of Node.js.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple, cast
from urllib.parse import urlsplit

import httptools

MAX_CONNECTIONS = 256  # further exchanges wait, within the deadline of their callers
IDLE_S = 4.0  # uvicorn closes idle connections after 5 s, and a POST must not be sent twice
MAX_ANSWER = 4 << 20  # bytes; the longest response, of a thousand items, has some 100 kB


class Response(NamedTuple):
    """A response; names of headers are in lower case."""

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
        """Send a request and return the response, whatever its status.

        There is no deadline: cancelling the exchange closes its connection.

        Raises:
            ConnectionError: the connection ended early, or the response is too long or not HTTP;
                the server may have received the request.
            OSError: there is no connection, so it has not.
            ValueError: a header is invalid.
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
        """Return the most recently used idle connection, so that the others time out."""
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
    """A connection with one exchange at a time."""

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

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():  # no request is under way
            self.abort()
            return
        self._length += len(data)
        if self._length > MAX_ANSWER:
            self._fail("the response is too long")
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(f"the response is not HTTP: {error}")

    def eof_received(self) -> None:
        """End a response that is delimited by the end of the connection (RFC 9112, 6.3)."""
        framed = {"content-length", "transfer-encoding"} & self._headers.keys()
        if self._answer is not None and self._in_body and not framed:
            self.on_message_complete()

    def connection_lost(self, error: Exception | None) -> None:
        self._fail("the connection has ended" if error is None else str(error))

    def _fail(self, why: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError(why))
        self.abort()

    # callbacks of the parser

    def on_message_begin(self) -> None:
        if self._answer is None or self._answer.done():  # no request is under way
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
        if status < 200:  # interim; the final response follows
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
    """Return a URL's server, ``Host`` header and path."""
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
