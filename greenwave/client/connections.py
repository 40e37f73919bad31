"""The connections of a client."""

from __future__ import annotations

import os
import ssl

import aiohttp

from greenwave.client.call import NoReply, Reply, Send
from greenwave.client.settings import IDLE_S, MAX_ANSWER

_NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


class Connections:
    """A pool of connections of one event loop, which opens with the first request.

    Args:
        most: the most connections at once.
        tls: None to check certificates against the usual authorities.
        unix_socket: path of a Unix socket to connect to, whatever the host; None to use TCP.
    """

    def __init__(
        self, most: int, tls: ssl.SSLContext | None, unix_socket: str | None = None
    ) -> None:
        self._most = most
        self._tls = tls
        self._unix_socket = unix_socket
        self._to = f" to {unix_socket}" if unix_socket else ""
        self._opened: aiohttp.ClientSession | None = None

    async def __call__(self, send: Send, /) -> Reply | NoReply:
        times = aiohttp.ClientTimeout(total=send.timeout_s, sock_connect=send.connect_s)
        try:
            async with self._session().request(
                send.method,
                send.url,
                headers=send.headers,
                data=send.body,
                timeout=times,
                allow_redirects=False,
            ) as response:
                body = await _read(response.content)
        except _NOT_SENT as error:
            return NoReply(sent=False, reason=f"No connection{self._to}: {_in_words(error)}")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return NoReply(sent=True, reason=f"No answer: {_in_words(error)}")
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Reply(response.status, headers, body)

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()

    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            connector: aiohttp.BaseConnector
            if self._unix_socket is None:
                connector = aiohttp.TCPConnector(
                    limit=self._most, keepalive_timeout=IDLE_S, ssl=self._tls or True
                )
            else:
                connector = aiohttp.UnixConnector(
                    self._unix_socket, limit=self._most, keepalive_timeout=IDLE_S
                )
            self._opened = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), middlewares=(_send_once,)
            )
        return self._opened


async def _send_once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Keep aiohttp from repeating a PUT or DELETE when a connection drops."""
    try:
        return await handler(request)
    except _NOT_SENT:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise aiohttp.ClientPayloadError(_in_words(error)) from error


def _in_words(error: Exception) -> str:
    """Return the words of the system for an error, or its kind and message."""
    cause = error.__cause__
    if not isinstance(cause, OSError) or not str(cause):
        return f"{type(error).__name__} {error}".strip()
    if cause.errno and "Connect call failed" in str(cause):  # asyncio's words
        return os.strerror(cause.errno)
    return cause.strerror or str(cause)


async def _read(content: aiohttp.StreamReader) -> bytes:
    parts, size = [], 0
    async for chunk in content.iter_any():
        size += len(chunk)
        if size > MAX_ANSWER:
            raise aiohttp.ClientPayloadError(f"the answer is longer than {MAX_ANSWER} bytes")
        parts.append(chunk)
    return b"".join(parts)
