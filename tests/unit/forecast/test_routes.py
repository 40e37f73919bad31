from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import httpx
from fastapi import FastAPI

from deployments.forecast.api import prediction
from deployments.forecast.errors import InvalidRequestError
from deployments.http.errors import render_error
from deployments.http.fast_routes import FastRoutes


def app_of(forecast: Callable[[bytes], Awaitable[bytes]]) -> FastAPI:
    app = FastAPI()
    routes = FastRoutes(app, render_error, max_waiting=2)
    routes.add("POST", "/forecast", prediction(forecast), max_body=100)
    return app


def client_of(forecast: Callable[[bytes], Awaitable[bytes]]) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app_of(forecast))
    return httpx.AsyncClient(transport=transport, base_url="http://test")


async def echo(body: bytes) -> bytes:
    return body


async def test_the_answer_is_what_the_service_says():
    answer = await client_of(echo).post("/forecast", content=b'{"a":1}')
    assert answer.status_code == 200
    assert answer.json() == {"a": 1}
    assert answer.headers["content-type"] == "application/json"


async def test_a_refusal_has_its_status_and_a_string():
    async def refuse(body):
        raise InvalidRequestError('so "not"')

    answer = await client_of(refuse).post("/forecast", content=b"{}")
    assert (answer.status_code, answer.json()) == (400, {"detail": 'so "not"'})


async def test_a_defect_is_a_prediction_error():
    async def fail(body):
        raise RuntimeError("boom")

    answer = await client_of(fail).post("/forecast", content=b"{}")
    assert (answer.status_code, answer.json()) == (500, {"detail": "Prediction error: boom"})


async def test_a_body_over_the_limit_is_refused_while_it_arrives():
    sent = 0

    async def endless():
        nonlocal sent
        for _ in range(1000):
            sent += 1
            yield b"x" * 30

    answer = await client_of(echo).post("/forecast", content=endless())
    assert answer.status_code == 413
    assert answer.json() == {"detail": "The request body is larger than 100 bytes"}


async def test_more_requests_than_allowed_are_refused_and_the_others_answered():
    go_on, at_work = asyncio.Event(), asyncio.Semaphore(0)

    async def wait(body):
        at_work.release()
        await go_on.wait()
        return b"{}"

    client = client_of(wait)
    admitted = [asyncio.create_task(client.post("/forecast", content=b"")) for _ in range(2)]
    for _ in admitted:
        await at_work.acquire()
    refused = await client.post("/forecast", content=b"")
    assert refused.status_code == 503
    assert refused.json() == {"detail": "Too many requests are waiting"}
    assert refused.headers["retry-after"] == "1"
    go_on.set()
    assert [answer.status_code for answer in await asyncio.gather(*admitted)] == [200, 200]
    assert (await client.post("/forecast", content=b"")).status_code == 200


async def test_a_body_that_does_not_arrive_in_time_is_refused(monkeypatch):
    monkeypatch.setattr("deployments.http.request.BODY_TIMEOUT_S", 0.01)

    async def stuck():
        yield b"{"
        await asyncio.Event().wait()

    answer = await client_of(echo).post("/forecast", content=stuck())
    assert answer.status_code == 408


async def test_other_routes_and_methods_answer_in_json():
    client = client_of(echo)
    assert (await client.get("/nothing")).json() == {"detail": "Not Found"}
    assert (await client.get("/forecast")).status_code in (404, 405)


async def test_the_prefix_of_the_application_is_not_part_of_the_route():
    transport = httpx.ASGITransport(app_of(echo), root_path="/flow")
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        assert (await client.post("/flow/forecast", content=b"[]")).json() == []
