"""Clients that never finish their request take no place of others."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import httpx
import pytest

from serve_app.processes.edge import Edge

# As many honest ones as the edge sends on at once on one core: further ones wait half a second.
N_HONEST = 80
N_HELD_BACK = 1500
N_LONG = 300  # three for each place of long bodies; more of them would slow the stand-in


def part(sent: int, length: int) -> bytes:
    head = f"POST /predict_action HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
    return head.encode() + b" " * sent


CHUNK = b"POST /predict_action HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
HELD_BACK = {
    "half of a long body": part(30_000, 60_000),
    "a chunk": CHUNK + b"7530\r\n" + b" " * 30_000 + b"\r\n",
}
LONG = {  # too long to be held back
    "half of a very long body": part(90_000, 200_000),
    "many chunks": CHUNK + 3 * (b"7530\r\n" + b" " * 30_000 + b"\r\n"),
}


@contextlib.asynccontextmanager
async def slow_clients(edge: Edge, n: int, sent: bytes) -> AsyncIterator[None]:
    """Keep connections that have sent no more than this."""
    async with contextlib.AsyncExitStack() as slow:
        for _ in range(n):
            _, writer = await asyncio.open_connection(*edge.listeners()["inference"])
            slow.callback(writer.close)
            writer.write(sent)
        yield


async def ask(edge: Edge) -> set[int]:
    """Send all honest requests at once, and return how they were answered."""
    limits = httpx.Limits(max_connections=N_HONEST)
    async with httpx.AsyncClient(timeout=20, limits=limits) as client:
        url = edge.urls()["inference"] + "/predict_action"
        answers = await asyncio.gather(*(client.post(url, json={"n": n}) for n in range(N_HONEST)))
    return {answer.status_code for answer in answers}


@pytest.mark.usefixtures("many_sockets")
@pytest.mark.parametrize("what", HELD_BACK)
async def test_1500_connections_without_a_whole_request_do_not_hinder_80_honest_ones(
    edge, front, what
):
    front.reached.clear()
    async with slow_clients(edge, N_HELD_BACK, HELD_BACK[what]):
        assert await ask(edge) == {200}
        assert front.reached == ["POST /predict_action"] * N_HONEST


@pytest.mark.usefixtures("many_sockets")
@pytest.mark.parametrize("what", LONG)
async def test_300_connections_with_a_part_of_a_long_body_do_not_hinder_80_honest_ones(edge, what):
    async with slow_clients(edge, N_LONG, LONG[what]):
        assert await ask(edge) == {200}
