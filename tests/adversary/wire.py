"""Requests and answers as bytes: clients that keep to HTTP cannot attack."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

RUN = b"run-of-attack"  # in what is sent; each attack replaces it by another run
OBSERVED = b'{"junction_id":"300839359","obs_data":[0.5]}'
DECISION = b'{"junctionId":"300839359","observations":[0.5]}'
IDLE_S = 4.0  # after the last byte of an answer, nothing more is to come
LONGEST_S = 20.0

Address = tuple[str, int]
Piece = bytes | float
"""What is sent, or seconds to wait before the next piece."""


@dataclass(frozen=True)
class Answer:
    """One answer of HTTP. Names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


def request(
    method: str, path: str, *headers: bytes, body: bytes = b"", length: bytes | None = None
) -> bytes:
    """Write a request; ``length`` is its Content-Length where that is not the body's own."""
    size = b"%d" % len(body) if length is None else length
    lines = [f"{method} {path} HTTP/1.1".encode(), b"Host: localhost", *headers]
    if body or length is not None:
        lines.append(b"Content-Length: " + size)
    return b"\r\n".join([*lines, b"", b""]) + body


def step(*headers: bytes, body: bytes = OBSERVED, length: bytes | None = None) -> bytes:
    """Write a request for one step of this attack's run."""
    return request(
        "POST", "/predict_action", b"X-Simulation-Run: " + RUN, *headers, body=body, length=length
    )


async def exchange(address: Address, pieces: Sequence[Piece]) -> list[Answer]:
    """Send pieces on a connection, and return what is answered until it ends or goes quiet."""
    reader, writer = await asyncio.open_connection(*address, limit=1 << 24)
    sending = asyncio.create_task(_send(writer, pieces))
    received = b""
    try:
        async with asyncio.timeout(LONGEST_S):
            while True:
                patience = IDLE_S if sending.done() and received else LONGEST_S
                part = await asyncio.wait_for(reader.read(1 << 20), patience)
                if not part:
                    break
                received += part
    except (TimeoutError, ConnectionError):
        pass
    finally:
        sending.cancel()
        writer.transport.abort()
    return answers_in(received)


async def _send(writer: asyncio.StreamWriter, pieces: Sequence[Piece]) -> None:
    with contextlib.suppress(ConnectionError):
        for piece in pieces:
            if isinstance(piece, float):
                await asyncio.sleep(piece)
            else:
                writer.write(piece)
                await writer.drain()


def answers_in(received: bytes) -> list[Answer]:
    """Read answers one after the other; of HTTP/0.9, or of no HTTP at all, there are none."""
    answers = []
    while received.startswith(b"HTTP/"):
        head, _, rest = received.partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        named = (line.split(":", 1) for line in lines)
        headers = {name.lower(): value.strip() for name, value in named}
        if headers.get("transfer-encoding") == "chunked":
            body, rest = _dechunked(rest)
        else:
            size = int(headers.get("content-length", 0))
            body, rest = rest[:size], rest[size:]
        answers.append(Answer(int(status.split()[1]), headers, body))
        received = rest
    return answers


def _dechunked(rest: bytes) -> tuple[bytes, bytes]:
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        n = int(size, 16)
        body, rest = body + rest[:n], rest[n + 2 :]
        if n == 0:
            break
    return body, rest
