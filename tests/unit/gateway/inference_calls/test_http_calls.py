"""Calls over HTTP, against a real socket that answers as the test says."""

import asyncio
import json
import threading
from collections.abc import Callable

import pytest
import pytest_asyncio

from deployments.gateway.errors import BadRequestError, InferenceUnavailableError
from deployments.gateway.inference_calls.address import base_of
from deployments.gateway.inference_calls.batcher import CallBatcher, Step
from deployments.gateway.inference_calls.http_calls import HttpCalls
from deployments.trace_context import NOT_TRACED, Trace
from tests.support.local_server import Answer, Request, json_answer, serving
from tests.unit.tracing.recorded import links_of, parent_of, recording, trace_of

DEADLINE_S = 1.0
TRACE, OTHER_TRACE = Trace(1, 2), Trace(3, 4)
STEP = Step("run-7", "300839359", [1.0, 0.5], "key-1", "abc")


class Server:
    """Answers every request with ``answer`` and remembers what it was asked."""

    def __init__(self) -> None:
        self.answer: Answer | Callable[[Request], Answer | None] = json_answer(200, {"action": 1})
        self.requests: list[Request] = []
        self.base = ""

    def respond(self, request: Request) -> Answer | None:
        self.requests.append(request)
        return self.answer(request) if callable(self.answer) else self.answer


@pytest.fixture
def server():
    server = Server()
    with serving(server.respond) as url:
        server.base = f"{url}/some/base"
        yield server


def calls_to(bases: list[str], token: str | None = None) -> HttpCalls:
    """Make calls of a service that is found at the first URL, then at the second, and so on."""

    async def find_base() -> str:
        return bases.pop(0)

    return HttpCalls(find_base, DEADLINE_S, token)


@pytest_asyncio.fixture
async def calls(server):
    calls = calls_to([server.base])
    yield calls
    await calls.close()


@pytest_asyncio.fixture
async def sharing(calls):
    batcher = CallBatcher(calls.step)
    yield batcher
    batcher.close()


async def act(calls: HttpCalls, step: Step = STEP) -> object:
    (outcome,) = await calls.step([step])
    return getattr(outcome, "action", outcome)


async def test_a_step_is_sent_as_the_contract_words_it(calls, server):
    assert await act(calls) == 1
    await act(calls, Step(None, "300839359", [1.0], "key-1"))
    (method, path, headers, body), (_, _, of_no_run, _) = server.requests
    assert (method, path) == ("POST", "/some/base/predict_action")
    assert headers["x-simulation-run"] == "run-7"
    assert headers["x-request-id"] == "abc"
    assert headers["idempotency-key"] == "key-1"
    assert headers["content-type"] == "application/json"
    assert json.loads(body) == {"junction_id": "300839359", "obs_data": [1.0, 0.5]}
    assert not {"authorization", "traceparent"} & headers.keys()
    assert not {"x-simulation-run", "x-request-id"} & of_no_run.keys()


async def test_the_services_token_goes_with_every_call(server):
    calls = calls_to([server.base], token="secret")
    await act(calls)
    await calls.reset("run-7", "key-1", None)
    await calls.health()
    given = [headers.get("authorization") for _, _, headers, _ in server.requests]
    assert given == ["Bearer secret"] * 3
    server.answer = json_answer(401, {"detail": "The token is not valid"})
    with pytest.raises(InferenceUnavailableError, match="unusable: 401 The token"):
        await act(calls)
    await calls.close()


async def test_a_busy_service_is_not_looked_for_anew(calls, server):
    server.answer = json_answer(503, {"detail": "overloaded"})
    with pytest.raises(InferenceUnavailableError, match="overloaded"):
        await act(calls)
    server.answer = json_answer(200, {"action": 1})
    assert await act(calls) == 1


async def test_the_other_routes_are_derived_from_the_url(calls, server):
    server.answer = json_answer(200, {"status": "healthy"})
    assert await calls.health() == "healthy"
    await calls.reset("run-7", "key-1", None)
    assert [(method, path) for method, path, _, _ in server.requests] == [
        ("GET", "/some/base/health"),
        ("POST", "/some/base/reset_hidden"),
    ]
    headers = server.requests[1][2]
    assert (headers["x-simulation-run"], headers["idempotency-key"]) == ("run-7", "key-1")


@pytest.mark.parametrize(
    ("status", "code", "answered"), [(400, "", 400), (422, "", 400), (422, "key_reused", 422)]
)
async def test_a_refusal_is_a_bad_request(calls, server, status, code, answered):
    body, headers = {"detail": "too large"}, {"X-Error-Code": code}
    server.answer = json_answer(status, body)._replace(headers=headers)
    with pytest.raises(BadRequestError, match="too large") as refusal:
        await act(calls)
    assert refusal.value.status == answered


@pytest.mark.parametrize(
    ("status", "body", "code", "cause"),
    [
        (503, '{"detail": "no"}', "model_not_loaded", "not_loaded"),
        (503, '{"detail": "no"}', "outcome_unknown", "outcome_unknown"),
        (503, '{"detail": "no"}', "too_many_states", "too_many_states"),
        (503, '{"detail": "Model not loaded"}', "of another maker", "overloaded"),
        (503, '{"detail": "Model not loaded"}', "", "overloaded"),
        (429, "", "", "overloaded"),
        (408, "", "", "overloaded"),
        (500, "Internal Server Error", "", "failing"),
        (502, "<html>", "", "failing"),
        (404, '{"detail": "Not Found"}', "", "unusable"),
        (400, "<html>plain HTTP to an HTTPS port</html>", "", "unusable"),
        (422, '{"detail": [{"msg": "another service"}]}', "", "unusable"),
        (301, "", "", "unusable"),
        (200, "", "", "unusable"),
        (200, "[1]", "", "unusable"),
        (200, "{}", "", "unusable"),
        (200, '{"action": 4}', "", "unusable"),
        (200, '{"action": -1}', "", "unusable"),
        (200, '{"action": true}', "", "unusable"),
        (200, '{"action": "1"}', "", "unusable"),
    ],
)
async def test_answers_that_lead_to_the_fallback(calls, server, status, body, code, cause):
    headers = {"X-Error-Code": code}
    server.answer = Answer(status, body.encode(), headers)
    with pytest.raises(InferenceUnavailableError) as failure:
        await act(calls)
    assert failure.value.cause == cause


async def test_a_hanging_server_is_given_up_at_the_deadline(calls, server):
    released = threading.Event()
    server.answer = lambda request: released.wait() and None
    with pytest.raises(InferenceUnavailableError, match="too_slow"):
        await act(calls)
    released.set()


async def test_a_service_that_starts_later_or_moves_is_found_then(server):
    found: list[str] = []
    calls = calls_to(found)
    with pytest.raises(InferenceUnavailableError, match="unreachable"):
        await act(calls)
    found += [server.base, server.base + "/moved"]
    assert await act(calls) == 1
    server.answer = json_answer(404, {"detail": "Not Found"})
    with pytest.raises(InferenceUnavailableError):
        await act(calls)
    server.answer = json_answer(200, {"action": 2})
    assert await act(calls) == 2
    assert server.requests[-1].path == "/some/base/moved/predict_action"
    await calls.close()


async def test_finding_the_service_counts_towards_the_deadline():
    async def never():
        await asyncio.Event().wait()
        raise AssertionError

    calls = HttpCalls(never, DEADLINE_S)
    with pytest.raises(InferenceUnavailableError, match="too_slow"):
        await act(calls)


async def outcomes_of(sharing: CallBatcher, steps: list[Step]) -> list[object]:
    outcomes = await asyncio.gather(*map(sharing.submit, steps), return_exceptions=True)
    return [getattr(each, "cause", getattr(each, "action", each)) for each in outcomes]


class TestSharing:
    """Steps that arrive together, by ``/predict_actions``."""

    async def test_steps_of_one_run_share_a_call(self, sharing, server):
        server.answer = json_answer(200, {"items": [{"action": n} for n in (2, 0, 3)]})
        steps = [Step("run-7", "300839359", [float(n)], f"key-{n}", f"id-{n}") for n in range(3)]
        assert await outcomes_of(sharing, steps) == [2, 0, 3]
        ((method, path, headers, body),) = server.requests
        assert (method, path) == ("POST", "/some/base/predict_actions")
        assert (headers["x-simulation-run"], headers["x-request-id"]) == ("run-7", "id-0")
        assert headers["idempotency-key"] == "key-0"  # so that the call may be repeated
        items = [
            {"junction_id": "300839359", "obs_data": [float(n)], "request_id": f"key-{n}"}
            for n in range(3)
        ]
        assert json.loads(body) == {"items": items}

    async def test_runs_have_calls_of_their_own_and_every_step_its_answer(self, sharing, server):
        actions = {"a": [1, 2], "b": [3, 0]}

        def answer(request):
            decided = actions[request.headers["x-simulation-run"]]
            return json_answer(200, {"items": [{"action": n} for n in decided]})

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
            {"error": {"status": 422, "detail": "obs_data: too large"}},
        ]
        server.answer = json_answer(200, {"items": items})
        *outcomes, bad = await outcomes_of(sharing, [STEP] * len(items))
        assert outcomes == [1, "not_loaded", "overloaded", "outcome_unknown", *["unusable"] * 4]
        assert isinstance(bad, BadRequestError)
        assert str(bad) == "obs_data: too large"

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
        server.answer = json_answer(status, body)
        assert await outcomes_of(sharing, [STEP] * 2) == [cause] * 2


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
    async def test_a_shared_call_is_linked_to_the_traces_of_its_requests(self, sharing, server):
        steps = [STEP, STEP._replace(trace=TRACE), STEP._replace(trace=OTHER_TRACE)]
        server.answer = json_answer(200, {"items": [{"action": 1}] * 3})
        with recording() as recorded:
            await outcomes_of(sharing, steps)
            call = recorded.one("POST /predict_actions")
        assert (parent_of(call), links_of(call)) == (TRACE, [OTHER_TRACE])
        assert call.attributes == {"steps": 3}
        assert server.requests[0][2]["traceparent"] == str(trace_of(call))

    async def test_a_call_for_nobody_who_is_traced_keeps_out_of_it(self, calls, server):
        with recording() as recorded:
            await act(calls)
            assert recorded.all() == []
        assert server.requests[0][2]["traceparent"] == NOT_TRACED
