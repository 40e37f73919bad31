"""Bodies of fast routes, whichever way a request takes."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.unit.http.apps import PATH, app_with, client_of, serving


@pytest_asyncio.fixture(params=["ASGI", "fast path"])
async def connect(request):
    """Return what makes a client of an application."""
    async with AsyncExitStack() as stack:

        async def connect(app):
            if request.param == "ASGI":
                return client_of(app)
            server = await stack.enter_async_context(serving(app))
            return await stack.enter_async_context(
                httpx.AsyncClient(base_url=f"{server.url}/api", timeout=5)
            )

        yield connect


async def test_a_body_in_parts_is_put_together(connect):
    async def parts():
        for part in (b"a", b"", b"bc"):
            yield part
            await asyncio.sleep(0.02)

    client = await connect(app_with())
    assert (await client.post(PATH, content=parts())).content == b"abc"


async def test_a_body_may_be_as_long_as_the_limit_and_no_longer(connect):
    client = await connect(app_with())
    assert (await client.post(PATH, content=b"x" * 100)).status_code == 200
    answer = await client.post(PATH, content=b"x" * 101)
    assert answer.status_code == 413
    assert answer.json() == {"detail": "The request body is larger than 100 bytes"}
    assert (await client.post(PATH, content=b"next")).content == b"next"


async def test_a_body_that_does_not_come_in_time_is_refused(connect, monkeypatch):
    monkeypatch.setattr("deployments.http.request.BODY_TIMEOUT_S", 0.05)

    async def stuck():
        yield b"x"
        await asyncio.sleep(1)

    client = await connect(app_with())
    answer = await client.post(PATH, content=stuck())
    assert answer.status_code == 408
    assert answer.json() == {"detail": "The request body did not arrive in time"}


async def test_a_client_that_goes_gets_no_answer_and_leaves_room_for_others():
    app = app_with(max_waiting=1)
    messages: list[dict[str, Any]] = [
        {"type": "http.request", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive():
        return messages.pop(0)

    async def send(message):
        pytest.fail(f"answered: {message}")

    scope = {"type": "http", "method": "POST", "path": PATH, "headers": []}
    with pytest.raises(asyncio.CancelledError):
        await app(scope, receive, send)
    assert (await client_of(app).post(PATH, content=b"x")).status_code == 200
