"""Calls over HTTP, against a real socket that answers as the test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio
from aiohttp import web

from deployments.gateway.errors import BadRequestError
from deployments.gateway.inference_client import InferenceUnavailableError, Step
from deployments.gateway.inference_http import HttpTransport, check_url

STEP = Step("run-7", "300839359", [1.0, 0.5], "abc")


class Server:
    """Answers every request with ``answer`` and remembers what it was asked."""

    def __init__(self) -> None:
        self.answer: Callable[[], web.Response] = lambda: web.json_response({"action": 1})
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.connections: set[object] = set()
        self.hang = False
        self.released = asyncio.Event()
        self.url = ""

    async def handle(self, request: web.BaseRequest) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.requests.append((request.method, request.path, headers, await request.read()))
        self.connections.add(request.transport)
        if self.hang:
            await self.released.wait()
        return self.answer()


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    runner = web.ServerRunner(web.Server(server.handle), shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    server.url = f"http://127.0.0.1:{port}/some/base/predict_action"
    yield server
    server.released.set()
    await runner.cleanup()


@pytest_asyncio.fixture
async def transport(server: Server) -> AsyncIterator[HttpTransport]:
    transport = HttpTransport(server.url, deadline_s=0.3)
    yield transport
    await transport.close()


async def test_a_step_is_sent_as_the_contract_words_it(transport, server):
    assert await transport.act(STEP) == 1
    ((method, path, headers, body),) = server.requests
    assert (method, path) == ("POST", "/some/base/predict_action")
    assert headers["x-simulation-run"] == "run-7"
    assert headers["x-request-id"] == "abc"
    assert headers["content-type"] == "application/json"
    assert json.loads(body) == {"junction_id": "300839359", "obs_data": [1.0, 0.5]}


async def test_a_step_of_no_run_names_none(transport, server):
    await transport.act(Step(None, "300839359", [1.0]))
    assert not {"x-simulation-run", "x-request-id"} & server.requests[0][2].keys()


async def test_the_other_routes_are_derived_from_the_url(transport, server):
    server.answer = lambda: web.json_response({"status": "healthy"})
    assert await transport.health() == "healthy"
    await transport.reset("run-7", None)
    assert [(method, path) for method, path, _, _ in server.requests] == [
        ("GET", "/some/base/health"),
        ("POST", "/some/base/reset_hidden"),
    ]
    assert server.requests[1][2]["x-simulation-run"] == "run-7"


async def test_connections_are_kept(transport, server):
    for _ in range(5):
        await transport.act(STEP)
    assert len(server.connections) == 1


@pytest.mark.parametrize("status", [400, 422])
async def test_a_refusal_is_a_bad_request(transport, server, status):
    server.answer = lambda: web.json_response({"detail": "too large"}, status=status)
    with pytest.raises(BadRequestError, match="too large"):
        await transport.act(STEP)


@pytest.mark.parametrize(
    ("status", "body", "cause"),
    [
        (503, '{"detail": "Model not loaded"}', "not_loaded"),
        (503, '{"detail": "Too many requests are waiting"}', "overloaded"),
        (429, "", "overloaded"),
        (408, "", "overloaded"),
        (500, "Internal Server Error", "failing"),
        (502, "<html>", "failing"),
        (404, '{"detail": "Not Found"}', "unusable"),
        (301, "", "unusable"),
        (200, "", "unusable"),
        (200, "[1]", "unusable"),
        (200, "{}", "unusable"),
        (200, '{"action": 4}', "unusable"),
        (200, '{"action": -1}', "unusable"),
        (200, '{"action": true}', "unusable"),
        (200, '{"action": "1"}', "unusable"),
    ],
)
async def test_answers_that_lead_to_the_fallback(transport, server, status, body, cause):
    server.answer = lambda: web.Response(status=status, text=body)
    with pytest.raises(InferenceUnavailableError) as failure:
        await transport.act(STEP)
    assert failure.value.cause == cause


async def test_a_hanging_server_is_given_up_at_the_deadline(transport, server):
    server.hang = True
    with pytest.raises(InferenceUnavailableError, match="too_slow"):
        await transport.act(STEP)


async def test_nobody_listens(server):
    transport = HttpTransport("http://127.0.0.1:9/predict_action", deadline_s=2)
    with pytest.raises(InferenceUnavailableError, match="unreachable"):
        await transport.act(STEP)
    await transport.close()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "predict_action",
        "ftp://x/predict_action",
        "http:///predict_action",
        "http://x/predict",
        "http://x/predict_action?a=1",
        "http://x/predict_action/",
    ],
)
def test_what_is_no_full_url_is_refused(url):
    with pytest.raises(ValueError, match="RL_INFERENCE_SERVICE_URL"):
        check_url(url)
