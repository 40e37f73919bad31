from __future__ import annotations

from collections.abc import Awaitable, Callable

import httpx

from deployments.forecast.api import prediction
from deployments.forecast.errors import InvalidRequestError
from tests.unit.http import apps
from tests.unit.http.apps import PATH


def client_of(forecast: Callable[[bytes], Awaitable[bytes]]) -> httpx.AsyncClient:
    return apps.client_of(apps.app_with(prediction(forecast)))


async def same(body: bytes) -> bytes:
    return body


async def test_the_answer_is_what_the_service_says():
    answer = await client_of(same).post(PATH, content=b'{"a":1}')
    assert answer.status_code == 200
    assert answer.json() == {"a": 1}
    assert answer.headers["content-type"] == "application/json"


async def test_a_refusal_has_its_status_and_a_string():
    async def refuse(body):
        raise InvalidRequestError('so "not"')

    answer = await client_of(refuse).post(PATH, content=b"{}")
    assert (answer.status_code, answer.json()) == (400, {"detail": 'so "not"'})


async def test_a_defect_is_a_prediction_error():
    async def fail(body):
        raise RuntimeError("boom")

    answer = await client_of(fail).post(PATH, content=b"{}")
    assert (answer.status_code, answer.json()) == (500, {"detail": "Prediction error: boom"})
