"""Calls over HTTP, against a real socket that answers as the test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio
from aiohttp import web

from deployments.gateway.errors import BadRequestError, KeyReusedError
from deployments.gateway.inference_calls.breaker import CircuitBreaker
from deployments.gateway.inference_calls.client import (
    InferenceClient,
    InferenceUnavailableError,
    Step,
)
from deployments.gateway.inference_calls.http_transport import HttpTransport, base_of
from deployments.trace_context import NOT_TRACED, Trace
from tests.unit.tracing.recorded import links_of, parent_of, recording, trace_of

DEADLINE_S = 1.0
TRACE, OTHER_TRACE = Trace(1, 2), Trace(3, 4)
STEP = Step("run-7", "300839359", [1.0, 0.5], "key-1", "abc")


class Server:
    """Answers every request with ``answer`` and remembers what it was asked."""

    def __init__(self) -> None:
        self.answer: Callable[[], web.Response] = lambda: web.json_response({"action": 1})
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.connections: set[object] = set()
        self.hang = False
        self.drops = 0
        self.released = asyncio.Event()
        self.base = ""

    async def handle(self, request: web.BaseRequest) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.requests.append((request.method, request.path, headers, await request.read()))
        self.connections.add(request.transport)
        if self.drops:
            self.drops -= 1
            assert request.transport is not None
            request.transport.abort()
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
    server.base = f"http://127.0.0.1:{port}/some/base"
    yield server
    server.released.set()
    await runner.cleanup()


def transport_to(
    base: str, *, shares_calls: bool = False, token: str | None = None
) -> HttpTransport:
    async def find_base() -> str:
        return base

    return HttpTransport(find_base, DEADLINE_S, shares_calls, token)


@pytest_asyncio.fixture
async def transport(server: Server) -> AsyncIterator[HttpTransport]:
    transport = transport_to(server.base)
    yield transport
    await transport.close()


@pytest_asyncio.fixture
async def sharing(server: Server) -> AsyncIterator[HttpTransport]:
    transport = transport_to(server.base, shares_calls=True)
    yield transport
    await transport.close()


async def test_a_step_is_sent_as_the_contract_words_it(transport, server):
    assert await transport.act(STEP) == 1
    ((method, path, headers, body),) = server.requests
    assert (method, path) == ("POST", "/some/base/predict_action")
    assert headers["x-simulation-run"] == "run-7"
    assert headers["x-request-id"] == "abc"
    assert headers["idempotency-key"] == "key-1"
    assert headers["content-type"] == "application/json"
    assert json.loads(body) == {"junction_id": "300839359", "obs_data": [1.0, 0.5]}


async def test_the_services_token_goes_with_every_call(server):
    transport = transport_to(server.base, token="secret")
    await transport.act(STEP)
    await transport.reset("run-7", None)
    await transport.health()
    given = [headers.get("authorization") for _, _, headers, _ in server.requests]
    assert given == ["Bearer secret"] * 3
    server.answer = lambda: web.json_response({"detail": "The token is not valid"}, status=401)
    with pytest.raises(InferenceUnavailableError, match="unusable: 401 The token"):
        await transport.act(STEP)
    await transport.close()


async def test_without_a_token_no_such_header_is_sent(transport, server):
    await transport.act(STEP)
    assert "authorization" not in server.requests[0][2]


async def test_a_step_of_no_run_names_none(transport, server):
    await transport.act(Step(None, "300839359", [1.0], "key-1"))
    assert not {"x-simulation-run", "x-request-id"} & server.requests[0][2].keys()


async def test_a_busy_service_is_not_looked_for_anew(server):
    found = [server.base]

    async def find_base() -> str:
        return str(found.pop())

    transport = HttpTransport(find_base, DEADLINE_S, shares_calls=False)
    server.answer = lambda: web.json_response({"detail": "overloaded"}, status=503)
    with pytest.raises(InferenceUnavailableError, match="overloaded"):
        await transport.act(STEP)
    server.answer = lambda: web.json_response({"action": 1})
    assert await transport.act(STEP) == 1
    await transport.close()


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


async def test_a_key_of_another_observation_is_told_apart(transport, server):
    body = {"detail": "other observations", "code": "key_reused"}
    server.answer = lambda: web.json_response(
        body, status=422, headers={"X-Error-Code": "key_reused"}
    )
    with pytest.raises(KeyReusedError, match="other observations"):
        await transport.act(STEP)


@pytest.mark.parametrize(
    ("headers", "cause"),
    [
        ({"X-Error-Code": "model_not_loaded"}, "not_loaded"),
        ({"X-Error-Code": "overloaded"}, "overloaded"),
        ({"X-Error-Code": "outcome_unknown"}, "outcome_unknown"),
        ({"X-Error-Code": "of another maker"}, "overloaded"),
        ({}, "overloaded"),
    ],
)
async def test_a_code_tells_what_503_means_and_not_the_text(transport, server, headers, cause):
    body = {"detail": "Model not loaded"}
    server.answer = lambda: web.json_response(body, status=503, headers=headers)
    with pytest.raises(InferenceUnavailableError) as failure:
        await transport.act(STEP)
    assert failure.value.cause == cause


@pytest.mark.parametrize(
    ("status", "body", "cause"),
    [
        (503, '{"detail": "Too many requests are waiting"}', "overloaded"),
        (429, "", "overloaded"),
        (408, "", "overloaded"),
        (500, "Internal Server Error", "failing"),
        (502, "<html>", "failing"),
        (404, '{"detail": "Not Found"}', "unusable"),
        (400, "<html>plain HTTP to an HTTPS port</html>", "unusable"),
        (422, '{"detail": [{"msg": "another service"}]}', "unusable"),
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


async def test_nobody_listens():
    transport = transport_to("http://127.0.0.1:9")
    with pytest.raises(InferenceUnavailableError, match="unreachable"):
        await transport.act(STEP)
    await transport.close()


async def test_a_service_that_starts_later_is_found_then(server):
    found: list[str] = []

    async def find_base() -> str:
        return found[0]  # IndexError: not yet

    transport = HttpTransport(find_base, DEADLINE_S, shares_calls=False)
    with pytest.raises(InferenceUnavailableError, match="unreachable"):
        await transport.act(STEP)
    found.append(server.base)
    assert await transport.act(STEP) == 1
    await transport.close()


async def test_a_service_that_has_moved_is_found_again(server):
    found = [server.base, server.base + "/moved"]

    async def find_base() -> str:
        return str(found.pop(0))

    transport = HttpTransport(find_base, DEADLINE_S, shares_calls=False)
    await transport.act(STEP)
    server.answer = lambda: web.json_response({"detail": "Not Found"}, status=404)
    with pytest.raises(InferenceUnavailableError):
        await transport.act(STEP)
    server.answer = lambda: web.json_response({"action": 2})
    assert await transport.act(STEP) == 2
    assert server.requests[-1][1] == "/some/base/moved/predict_action"
    await transport.close()


async def test_finding_the_service_counts_towards_the_deadline():
    async def never() -> str:
        await asyncio.Event().wait()
        raise AssertionError

    transport = HttpTransport(never, DEADLINE_S, shares_calls=False)
    with pytest.raises(InferenceUnavailableError, match="too_slow"):
        await transport.act(STEP)


async def outcomes_of(transport: HttpTransport, steps: list[Step]) -> list[object]:
    outcomes = await asyncio.gather(*map(transport.act, steps), return_exceptions=True)
    return [getattr(outcome, "cause", outcome) for outcome in outcomes]


async def test_a_dropped_connection_costs_no_decision_and_no_second_step(server, sharing):
    breaker = CircuitBreaker(InferenceUnavailableError, failures=1, pause_s=60)
    server.drops = 1
    assert await InferenceClient(sharing, breaker, DEADLINE_S).act(STEP) == 1
    first, second = server.requests
    assert first == second
    assert second[2]["idempotency-key"] == "key-1"


class TestSharing:
    """Steps that arrive together, by ``/predict_actions``."""

    async def test_a_step_that_comes_alone_is_sent_as_the_contract_words_it(self, sharing, server):
        assert await sharing.act(STEP) == 1
        assert server.requests[0][1] == "/some/base/predict_action"

    async def test_steps_of_one_run_share_a_call(self, sharing, server):
        server.answer = lambda: web.json_response({"items": [{"action": n} for n in (2, 0, 3)]})
        steps = [Step("run-7", "300839359", [float(n)], f"key-{n}", f"id-{n}") for n in range(3)]
        assert await outcomes_of(sharing, steps) == [2, 0, 3]
        ((method, path, headers, body),) = server.requests
        assert (method, path) == ("POST", "/some/base/predict_actions")
        assert (headers["x-simulation-run"], headers["x-request-id"]) == ("run-7", "id-0")
        assert "idempotency-key" not in headers
        items = [
            {"junction_id": "300839359", "obs_data": [float(n)], "request_id": f"key-{n}"}
            for n in range(3)
        ]
        assert json.loads(body) == {"items": items}

    async def test_runs_have_calls_of_their_own_and_every_step_its_answer(self, sharing, server):
        actions = {"a": [1, 2], "b": [3, 0]}

        def answer() -> web.Response:
            run = server.requests[-1][2]["x-simulation-run"]
            return web.json_response({"items": [{"action": n} for n in actions[run]]})

        server.answer = answer
        steps = [Step(run, "300839359", [1.0], "key") for run in ("a", "b", "a", "b")]
        assert await outcomes_of(sharing, steps) == [1, 3, 2, 0]
        assert len(server.requests) == 2

    async def test_an_item_that_is_refused_spoils_no_other(self, sharing, server):
        items = [
            {"action": 1},
            {"error": {"status": 503, "detail": "no", "code": "model_not_loaded"}},
            {"error": {"status": 503, "detail": "too much"}},
            {"error": {"status": 503, "detail": "unknown", "code": "outcome_unknown"}},
            {"error": {"status": 500}},
            {"action": 7},
            {},
            None,
        ]
        server.answer = lambda: web.json_response({"items": items})
        outcomes = await outcomes_of(sharing, [STEP] * len(items))
        assert outcomes == [1, "not_loaded", "overloaded", "outcome_unknown", *["unusable"] * 4]

    async def test_an_item_that_is_a_bad_request_is_told_so(self, sharing, server):
        refused = {"error": {"status": 422, "detail": "obs_data: too large"}}
        server.answer = lambda: web.json_response({"items": [refused, {"action": 1}]})
        bad, good = await outcomes_of(sharing, [STEP] * 2)
        assert isinstance(bad, BadRequestError)
        assert (str(bad), good) == ("obs_data: too large", 1)

    @pytest.mark.parametrize(
        ("status", "body", "cause"),
        [
            (503, {"detail": "Too many requests are waiting"}, "overloaded"),
            (500, {}, "failing"),
            (422, {"detail": "items: too long"}, "unusable"),  # nobody's own fault
            (200, {"items": [{"action": 1}]}, "unusable"),
            (200, {"items": 3}, "unusable"),
            (200, {}, "unusable"),
        ],
    )
    async def test_a_call_that_fails_as_a_whole_fails_for_all(
        self, sharing, server, status, body, cause
    ):
        server.answer = lambda: web.json_response(body, status=status)
        assert await outcomes_of(sharing, [STEP] * 2) == [cause] * 2

    async def test_a_hanging_server_is_given_up_at_the_deadline(self, sharing, server):
        server.hang = True
        assert await outcomes_of(sharing, [STEP] * 2) == ["too_slow"] * 2

    async def test_closing_leaves_no_caller_waiting(self, sharing, server):
        server.hang = True
        task = asyncio.create_task(sharing.act(STEP))
        while not server.requests:
            await asyncio.sleep(0.001)
        await sharing.close()
        async with asyncio.timeout(DEADLINE_S / 2):
            await asyncio.wait([task])


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
        base_of(url)


class TestTraces:
    async def test_a_call_is_a_part_of_its_requests_trace_and_tells_so(self, transport, server):
        with recording() as recorded:
            await transport.act(STEP._replace(trace=TRACE))
            call = recorded.one("POST /predict_action")
        assert parent_of(call) == TRACE
        assert server.requests[0][2]["traceparent"] == str(trace_of(call))

    async def test_a_shared_call_is_linked_to_the_traces_of_its_requests(self, sharing, server):
        steps = [STEP, STEP._replace(trace=TRACE), STEP._replace(trace=OTHER_TRACE)]
        server.answer = lambda: web.json_response({"items": [{"action": 1}] * 3})
        with recording() as recorded:
            await outcomes_of(sharing, steps)
            call = recorded.one("POST /predict_actions")
        assert (parent_of(call), links_of(call)) == (TRACE, [OTHER_TRACE])
        assert call.attributes == {"steps": 3}
        assert server.requests[0][2]["traceparent"] == str(trace_of(call))

    async def test_a_call_for_nobody_who_is_traced_keeps_out_of_it(self, transport, server):
        with recording() as recorded:
            await transport.act(STEP)
            assert recorded.all() == []
        assert server.requests[0][2]["traceparent"] == NOT_TRACED

    async def test_off_a_call_tells_nothing(self, transport, server):
        await transport.act(STEP)
        assert "traceparent" not in server.requests[0][2]
