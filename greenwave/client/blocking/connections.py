"""Persistent connections that block until the answer has arrived."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable

import httpcore

from greenwave.client.core.call import NoReply, Reply, Send
from greenwave.client.settings import IDLE_S, MAX_ANSWER

_NOT_SENT = (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.PoolTimeout)


class Connections:
    """A pool of connections, which threads can share.

    Args:
        most: the most connections at once.
        tls: None to check certificates against the usual authorities.
    """

    def __init__(self, most: int, tls: ssl.SSLContext | None) -> None:
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls, max_connections=most, keepalive_expiry=IDLE_S
        )

    def __call__(self, send: Send, /) -> Reply | NoReply:
        ends = time.monotonic() + send.timeout_s
        times = dict.fromkeys(("read", "write", "pool"), send.timeout_s)
        try:
            with self._pool.stream(
                send.method,
                send.url,
                headers=list(send.headers.items()),
                content=send.body,
                extensions={"timeout": {**times, "connect": send.connect_s}},
            ) as response:
                body = _read(response.iter_stream(), ends)
        except _NOT_SENT as error:
            return NoReply(False, f"No connection: {_reason(error)}")
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
            return NoReply(True, f"No answer: {_reason(error)}")
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in response.headers
        }
        return Reply(response.status, headers, body)

    def close(self) -> None:
        self._pool.close()


def _read(chunks: Iterable[bytes], ends: float) -> bytes:
    """Read an answer that may arrive slowly, within the time of the whole."""
    parts, size = [], 0
    for chunk in chunks:
        size += len(chunk)
        if size > MAX_ANSWER:
            raise httpcore.ReadError(f"the answer is longer than {MAX_ANSWER} bytes")
        if time.monotonic() > ends:
            raise httpcore.ReadTimeout("the answer took too long")
        parts.append(chunk)
    return b"".join(parts)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__} {error}".strip()
