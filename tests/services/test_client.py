"""The Python client through the edge: every route, and one step for each call."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest

from greenwave.client import (
    Addresses,
    AsyncClient,
    Client,
    InvalidRequestError,
    NotFoundError,
    Sample,
)
from tests.services.system import USER
from tests.support.local_server import Answer, Request, serving
from tests.unit.gateway.conftest import PASSWORD

JUNCTION, OBSERVATION = "300839359", [1, 0, 1, 0.4]


LENGTH = "inference-header-content-length"
PASSED_ON = ("content-type", "idempotency-key", "x-simulation-run", "authorization", LENGTH)
RETURNED = ("content-type", "x-hidden-state-step", "x-error-code", LENGTH)


@dataclass
class LossyProxy:
    """A running proxy, which passes every request on, and loses some of the answers.

    Attributes:
        asked: requests of its path.
    """

    url: str = ""
    asked: int = 0


@contextmanager
def losing(upstream: str, path: str, loses: Callable[[int], bool]) -> Iterator[LossyProxy]:
    """Run a proxy before a URL.

    Args:
        loses: returns whether the answer to the n-th request of this path, from 1, is lost.
    """
    proxy, lock = LossyProxy(), threading.Lock()

    def pass_on(request: Request) -> Answer | None:
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        answer = behind.post(request.path, content=request.body, headers=headers)
        if request.path == path:
            with lock:
                proxy.asked += 1
                number = proxy.asked
            if loses(number):
                return None
        kept = {name: answer.headers[name] for name in RETURNED if name in answer.headers}
        return Answer(answer.status_code, answer.content, kept)

    with httpx.Client(base_url=upstream, timeout=10) as behind, serving(pass_on) as proxy.url:
        yield proxy


@pytest.fixture
def client(addresses: Addresses) -> Iterator[Client]:
    with Client(addresses, USER, PASSWORD) as client:
        yield client


async def test_the_asynchronous_client_reaches_the_same_services(addresses, run_id):
    async with AsyncClient(addresses, USER, PASSWORD) as client:
        decision = await client.run(run_id).act(JUNCTION, OBSERVATION)
        steps = await client.inference.infer([OBSERVATION], [JUNCTION], runs=run_id)
        assert (decision.is_fallback, steps.step[0]) == (False, 2)
        with pytest.raises(NotFoundError, match="not found"):
            await client.loans.fetch("0000000000")


def test_health_and_models_are_reported(client):
    assert client.gateway.health().inference_service == "up"
    assert client.inference.health().status == "healthy"
    assert client.inference.model_info().junctions[JUNCTION].valid_actions == 2
    assert client.density.health().status == client.flow.health().status == "healthy"
    for service in ("gateway", "inference", "density", "flow", "accounts", "loans", "cards"):
        assert getattr(client, service).livez().status == "alive"
        assert getattr(client, service).readyz().status == "ready"
    assert client.density.model_info().input_shape == [3, 5]
    assert JUNCTION in client.flow.model_info().trained_on_junctions


def test_forecasts_are_made(client):
    assert len(client.density.predict([[16.9, 11.2, 12.6, 8.8, 9.1]] * 3).by_edge) == 5
    sample = Sample(int(time.time()) - 60, 12, 31.5, 0.04)
    flow = client.flow.forecast(JUNCTION, [sample])
    assert flow.forecast_timestamp == sample.timestamp + 900


@pytest.mark.parametrize("kind", ["loans", "cards", "accounts"])
def test_records_are_created_fetched_changed_and_deleted(client, kind):
    records, mobile = getattr(client, kind), f"{random.randrange(10**10):010}"
    who = ["Ann Miller", "ann@example.org"] if kind == "accounts" else []
    assert records.say_hello() == "Hello World"
    records.create(*who, mobile)
    with pytest.raises(InvalidRequestError, match="already registered"):
        records.create(*who, mobile)
    moved = records.fetch(mobile).model_copy(update={"mobile_number": mobile[::-1]})
    records.update(moved)
    assert records.fetch(mobile[::-1]) == moved
    records.delete(mobile[::-1])
    with pytest.raises(NotFoundError, match="not found"):
        records.fetch(mobile)


WAYS: dict[str, Callable[[Any, str], Any]] = {
    "/api/traffic/action": lambda client, run: client.run(run).act(JUNCTION, OBSERVATION),
    "/predict_action": lambda client, run: client.inference.run(run).predict(JUNCTION, OBSERVATION),
    "/v2/models/policy/infer": lambda client, run: client.inference.infer(
        [OBSERVATION], [JUNCTION], runs=[run]
    ),
}


@pytest.mark.parametrize("path", WAYS)
def test_lost_answers_cost_no_step_and_make_none(path, client, addresses, run_id):
    """Lose every third answer on its way, after the step was made."""
    n_calls, service = 12, "gateway" if path.startswith("/api") else "inference"
    with (
        losing(getattr(addresses, service), path, lambda n: n % 3 == 0) as proxy,
        Client(replace(addresses, **{service: proxy.url}), USER, PASSWORD) as lossy,
    ):
        for _ in range(n_calls):
            WAYS[path](lossy, run_id)
    assert proxy.asked > n_calls * 1.3
    assert client.inference.run(run_id).predict(JUNCTION, OBSERVATION).step == n_calls + 1
