"""Clients that never finish their request take nobody's place."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import Iterator

import httpx
import pytest

N_SLOW, N_HONEST = 1500, 250
HALF = b"POST /predict_action HTTP/1.1\r\nHost: x\r\nContent-Length: 90\r\n\r\n{"


@pytest.fixture
def many_sockets() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_sockets")
@pytest.mark.parametrize("sent", [b"", HALF], ids=["idle", "dripping"])
async def test_1500_connections_without_a_whole_request_do_not_hinder_250_honest_ones(
    edge, front, sent
):
    front.reached.clear()
    address = edge.listeners()["inference"]
    async with contextlib.AsyncExitStack() as slow:
        for _ in range(N_SLOW):
            _, writer = await asyncio.open_connection(*address)
            slow.callback(writer.close)
            writer.write(sent)
        limits = httpx.Limits(max_connections=N_HONEST)
        async with httpx.AsyncClient(timeout=20, limits=limits) as client:
            url = edge.urls()["inference"] + "/predict_action"
            answers = await asyncio.gather(
                *(client.post(url, json={"n": n}) for n in range(N_HONEST))
            )
    assert {answer.status_code for answer in answers} == {200}
    assert front.reached == ["POST /predict_action"] * N_HONEST
