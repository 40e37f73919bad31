"""The blocking client."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterable
from typing import Any, Self, TypeVar

import httpcore

from greenwave.client.base import BaseClient
from greenwave.client.call import Call, Exchange, NoReply, Reply, Send
from greenwave.client.service import Blocking
from greenwave.client.settings import IDLE_S, MAX_ANSWER

Result = TypeVar("Result")

_NOT_SENT = (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.PoolTimeout)


class Connections:
    """A pool of connections, which threads can share.

    Args:
        most: the most connections at once.
        tls: None to check certificates against the usual authorities.
        unix_socket: path of a Unix socket to connect to, whatever the host; None to use TCP.
    """

    def __init__(
        self, most: int, tls: ssl.SSLContext | None, unix_socket: str | None = None
    ) -> None:
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls,
            max_connections=most,
            keepalive_expiry=IDLE_S,
            uds=unix_socket,
            network_backend=_Network(),
        )

    def __call__(self, send: Send, /) -> Reply | NoReply:
        times = dict.fromkeys(("read", "write", "pool"), send.timeout_s)
        times["connect"] = send.connect_s
        _request.ends = time.monotonic() + send.timeout_s
        try:
            with self._pool.stream(
                send.method,
                send.url,
                headers=list(send.headers.items()),
                content=send.body,
                extensions={"timeout": times},
            ) as response:
                body = _read(response.iter_stream())
        except _NOT_SENT as error:
            return NoReply.because(error, sent=False)
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
            return NoReply.because(error, sent=True)
        finally:
            _request.ends = None
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in response.headers
        }
        return Reply(response.status, headers, body)

    def close(self) -> None:
        self._pool.close()


_request = threading.local()
"""When the request of this thread ends: httpcore starts each timeout anew, also within headers."""


def _left(limit: float | None, error: type[httpcore.TimeoutException]) -> float | None:
    """Return the seconds that an operation may take now."""
    ends: float | None = getattr(_request, "ends", None)
    if ends is None or limit is None:
        return limit
    left_s = min(limit, ends - time.monotonic())
    if left_s <= 0:
        raise error("the request took too long")
    return left_s


class _Network(httpcore.SyncBackend):
    """Opens connections whose operations end with their requests."""

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *others: Any, **named: Any
    ) -> httpcore.NetworkStream:
        left_s = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(super().connect_tcp(host, port, left_s, *others, **named))

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, *others: Any, **named: Any
    ) -> httpcore.NetworkStream:
        left_s = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(super().connect_unix_socket(path, left_s, *others, **named))


class _Stream(httpcore.NetworkStream):
    """A connection whose operations end with their requests."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream
        self.close = stream.close  # type: ignore[method-assign]
        self.get_extra_info = stream.get_extra_info  # type: ignore[method-assign]

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(timeout, httpcore.WriteTimeout))

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        left_s = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, left_s))


def _read(chunks: Iterable[bytes]) -> bytes:
    """Read an answer that is not too long."""
    parts, size = [], 0
    for chunk in chunks:
        size += len(chunk)
        if size > MAX_ANSWER:
            raise httpcore.ReadError(f"the answer is longer than {MAX_ANSWER} bytes")
        parts.append(chunk)
    return b"".join(parts)


class Client(BaseClient[Blocking, Exchange[Reply | NoReply]]):
    """A blocking client of a running system. Threads can share it; ``with`` closes it."""

    _connect = Connections
    _make_lock = staticmethod(threading.Lock)

    def close(self) -> None:
        """Close the connections; later calls raise InvalidInputError."""
        self._closed = True
        self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _perform(self, call: Call[Result], /) -> Result:
        self._check_open(call)
        try:
            self._complete(call).send(None)
        except StopIteration as done:
            result: Result = done.value
            return result
        raise AssertionError("a blocking call was suspended")

    async def _exchange(self, send: Send, /) -> Reply | NoReply:
        return self._connections(send)

    async def _pause(self, seconds: float, /) -> None:
        time.sleep(seconds)

    async def _acquire(self, timeout_s: float, /) -> bool:
        return bool(self._login_lock.acquire(timeout=timeout_s))

    def _release(self) -> None:
        self._login_lock.release()
