"""How a client records an answer or its absence; a wrong record would blind the checker."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from load_tests.chaos.clients import Client
from load_tests.chaos.history import History, Key, Outcome

KEY = Key("run", "junction")

Answering = Callable[[web.Request], Awaitable[web.StreamResponse]]


def says(status: int, *, kind: str = "application/json", **headers: str) -> Answering:
    async def answer(request: web.Request) -> web.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        body = b'{"action": 2, "confidence": 0.75}'
        return web.Response(status=status, content_type=kind, headers=named, body=body)

    return answer


async def hangs_up(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def says_nothing(request: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


@contextlib.asynccontextmanager
async def client_of(answering: Answering) -> AsyncIterator[tuple[Client, History]]:
    # Only silence may end by the time limit, however busy the machine is.
    timeout_s = 0.2 if answering is says_nothing else 60.0
    app = web.Application()
    app.router.add_route("*", "/{path}", answering)
    history = History()
    async with (
        TestServer(app) as server,
        Client(str(server.make_url("")).rstrip("/"), history, timeout_s=timeout_s) as client,
    ):
        yield client, history


ANSWERS = {
    "an answer": (says(200, X_Hidden_State_Step="7"), Outcome.ANSWERED),
    "the service's refusal": (says(503, X_Error_Code="overloaded"), Outcome.REFUSED),
    "its own doubt": (says(503, X_Error_Code="outcome_unknown"), Outcome.UNKNOWN),
    "a defect": (says(500), Outcome.UNKNOWN),
    "the proxy's 503": (says(503, kind="text/html"), Outcome.UNKNOWN),
    "a dropped connection": (hangs_up, Outcome.UNKNOWN),
    "silence": (says_nothing, Outcome.UNKNOWN),
}


@pytest.mark.parametrize("what", ANSWERS)
async def test_an_outcome_is_known_only_from_the_service_itself(what: str) -> None:
    answering, outcome = ANSWERS[what]
    async with client_of(answering) as (client, history):
        asked = await client.predict(KEY, observation=[0.1])
        assert await client.reset("run", "key") is (outcome is Outcome.ANSWERED)
    assert asked.outcome is outcome
    assert asked.step == (7 if outcome is Outcome.ANSWERED else 0)
    assert (asked.action, asked.confidence) == (
        (2, 0.75) if outcome is Outcome.ANSWERED else (0, 0.0)
    )
    assert asked.observation == (0.1,)
    assert bool(asked.error) is (outcome is not Outcome.ANSWERED)
    assert asked.sent < asked.done
    assert history.predictions == [asked]
    assert [(reset.outcome, reset.request) for reset in history.resets] == [(outcome, "key")]


async def test_a_request_that_was_never_sent_counts_as_refused() -> None:
    with socket.socket() as bound:  # but does not listen
        bound.bind(("127.0.0.1", 0))
        client = Client(f"http://127.0.0.1:{bound.getsockname()[1]}", History())
        async with client:
            assert (await client.predict(KEY)).outcome is Outcome.REFUSED
