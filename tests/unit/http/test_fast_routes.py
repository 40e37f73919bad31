"""The table of routes, driven as a server drives an ASGI application."""

import asyncio
import logging
import math
import time

import httpx
import pytest
from fastapi import FastAPI
from opentelemetry.trace import SpanKind
from starlette.types import Scope

from deployments.http.errors import RefusedError
from deployments.http.messages import JSON_HEADERS, Answer
from deployments.trace_context import Trace
from deployments.tracing import process as tracing
from tests.unit.http.apps import PATH, app_with, client_of
from tests.unit.tracing.recorded import parent_of, recording, trace_of


class Held:
    """A handler whose requests stay at work until the test lets them go."""

    def __init__(self) -> None:
        self.arrived = asyncio.Semaphore(0)
        self.go_on = asyncio.Event()

    async def handle(self, scope: Scope, body: bytes) -> Answer:
        self.arrived.release()
        await self.go_on.wait()
        return 200, b"{}", JSON_HEADERS

    async def fill(self, client: httpx.AsyncClient, n: int) -> list[asyncio.Task[httpx.Response]]:
        requests = [asyncio.create_task(client.post(PATH)) for _ in range(n)]
        for _ in requests:
            await self.arrived.acquire()
        return requests


class TestAnswers:
    async def test_the_body_goes_to_the_handler_and_its_answer_to_the_client(self):
        async def handle(scope, body):
            return 201, body.upper(), ((b"content-type", b"text/x"), (b"x-a", b"b"))

        answer = await client_of(app_with(handle)).post(PATH, content=b"hello")
        assert (answer.status_code, answer.content) == (201, b"HELLO")
        assert dict(answer.headers) == {
            "content-type": "text/x",
            "x-a": "b",
            "content-length": "5",
        }

    async def test_a_route_that_reads_no_body_does_not_wait_for_one(self):
        async def never():
            await asyncio.Event().wait()
            yield b""

        app = app_with(max_body=None)
        assert (await client_of(app).post(PATH, content=never())).content == b""


class BusyError(RefusedError):
    status = 503
    retry_after_s = 7
    code = "overloaded"


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "status", "detail"),
        [
            (RefusedError("so"), 500, "so"),
            (BusyError("later"), 503, "later"),
            (RuntimeError("a secret"), 500, "Internal Server Error"),
            (TimeoutError("of a store, not of the body"), 500, "Internal Server Error"),
        ],
    )
    async def test_what_the_handler_raises_is_rendered(self, error, status, detail):
        async def fail(scope, body):
            raise error

        client = client_of(app_with(fail, max_waiting=1))
        for _ in range(2):  # one that fails leaves its place to the next
            answer = await client.post(PATH)
            assert (answer.status_code, answer.json()) == (status, {"detail": detail})
        assert answer.headers["content-type"] == "application/json"
        asks = [answer.headers.get(name) for name in ("retry-after", "x-error-code")]
        assert asks == (["7", "overloaded"] if status == 503 else [None, None])

    async def test_a_defect_of_another_route_is_rendered_as_well(self):
        app = app_with()

        @app.get("/broken")
        async def broken():
            raise RuntimeError("a secret")

        answer = await client_of(app).get("/broken")
        assert (answer.status_code, answer.json()) == (500, {"detail": "Internal Server Error"})


class TestBound:
    async def test_requests_whose_bodies_are_on_their_way_take_nobodys_place(self):
        async def half():
            yield b"x"
            half_sent.release()
            await asyncio.Event().wait()

        half_sent = asyncio.Semaphore(0)
        client = client_of(app_with(max_waiting=2))
        slow = [asyncio.create_task(client.post(PATH, content=half())) for _ in range(100)]
        for _ in slow:
            await half_sent.acquire()
        answers = [await client.post(PATH, content=b"all") for _ in range(10)]
        assert [answer.status_code for answer in answers] == [200] * 10
        for each in slow:
            each.cancel()
        await asyncio.wait(slow)

    async def test_a_body_that_comes_when_all_places_are_taken_is_refused(self):
        async def late():
            yield b"x"
            held.arrived.release()
            await go_on.wait()
            yield b"y"

        held, go_on = Held(), asyncio.Event()
        client = client_of(app_with(held.handle, max_waiting=1))
        slow = asyncio.create_task(client.post(PATH, content=late()))
        await held.arrived.acquire()
        admitted = await held.fill(client, 1)
        go_on.set()
        assert (await slow).status_code == 503
        held.go_on.set()
        assert [answer.status_code for answer in await asyncio.gather(*admitted)] == [200]

    async def test_too_many_are_refused_and_the_others_are_answered(self, caplog):
        held = Held()
        client = client_of(app_with(held.handle))
        admitted = await held.fill(client, 2)
        for _ in range(50):
            refused = await client.post(PATH)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert refused.json() == {"detail": "Too many requests are waiting"}
        warnings = [each.getMessage() for each in caplog.records if each.levelno > logging.INFO]
        assert set(warnings) == {"Answered 503: Too many requests are waiting; 2 are at work"}
        held.go_on.set()
        assert [answer.status_code for answer in await asyncio.gather(*admitted)] == [200, 200]
        assert (await client.post(PATH)).status_code == 200


class TestTimes:
    """Of requests, by route and status."""

    @staticmethod
    def counted(app: FastAPI) -> dict[tuple[str, str, int], int]:
        return {
            (*route, status): count
            for route, times in app.state.request_times.routes.items()
            for status, bound, count in times.cumulative()
            if bound == math.inf
        }

    async def test_each_request_counts_once_under_its_route_and_status(self):
        app = app_with(max_body=3, max_waiting=1)
        client = client_of(app)
        for body in (b"a", b"b", b"too long"):
            await client.post(PATH, content=body)
        assert self.counted(app) == {("POST", PATH, 200): 2, ("POST", PATH, 413): 1}

    async def test_no_path_that_a_client_makes_up_becomes_a_label(self):
        app = app_with()
        client = client_of(app)
        for path in ("/status", "/nothing", f"{PATH}/7"):
            await client.get(path)
        assert self.counted(app) == {("", "other", 200): 1, ("", "other", 404): 2}

    async def test_who_has_gone_counts_as_499(self):
        held = Held()
        app = app_with(held.handle)
        (request,) = await held.fill(client_of(app), 1)
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        assert self.counted(app) == {("POST", PATH, 499): 1}
        assert app.state.request_times.at_work == 0


class TestTraces:
    async def test_a_request_of_a_trace_is_a_part_of_it(self):
        async def handle(scope, body):
            return 200, str(tracing.current()[0]).encode(), JSON_HEADERS

        with recording(share=0.0) as recorded:
            headers = {"traceparent": str(Trace(1, 2))}
            answer = await client_of(app_with(handle)).post(PATH, headers=headers)
            span = recorded.one(f"POST {PATH}")
        assert (parent_of(span), answer.text) == (Trace(1, 2), str(trace_of(span)))
        assert span.attributes == {"http.response.status_code": 200}
        with recording() as recorded:
            await client_of(app_with()).post(PATH, content=b"x" * 101)
            span = recorded.one(f"POST {PATH}")
        assert span.attributes == {"http.response.status_code": 413}

    async def test_a_route_that_is_not_logged_is_not_traced(self):
        with recording() as recorded:
            await client_of(app_with(logged=False)).post(PATH)
            assert recorded.all() == []

    async def test_the_way_from_the_edge_belongs_to_it(self):
        with recording() as recorded:
            headers = {"x-request-start": str(int((time.time() - 0.5) * 1e6))}
            headers["traceparent"] = str(Trace(1, 2))
            await client_of(app_with()).post(PATH, headers=headers)
            edge, request = recorded.one("edge"), recorded.one(f"POST {PATH}")
        assert (parent_of(edge), parent_of(request)) == (Trace(1, 2), trace_of(edge))
        assert 0.4 < ((request.start_time or 0) - (edge.start_time or 0)) / 1e9 < 10

    # the last two are of clocks that are wrong
    @pytest.mark.parametrize(
        "arrived", ["soon", "-1", "9" * 5000, "\u0663" * 16, "0" * 16, "9" * 16]
    )
    async def test_rubbish_is_no_time_of_arrival(self, arrived):
        with recording() as recorded:
            headers = {b"x-request-start": arrived.encode()}
            answer = await client_of(app_with()).post(PATH, content=b"{}", headers=headers)
            (span,) = recorded.all()
        assert (span.name, span.kind, span.parent) == (f"POST {PATH}", SpanKind.SERVER, None)
        assert answer.status_code == 200
