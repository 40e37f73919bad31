"""Thousands of requests that fail make a handful of lines, whatever it is that fails."""

import logging
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI

from deployments.customers import record_types
from deployments.customers.records.api import create_app as create_records
from deployments.customers.records.service import RecordService
from deployments.density.service import DensityService
from deployments.forecast.api import create_app as create_forecast
from deployments.gateway.api import create_app as create_gateway
from deployments.gateway.errors import InferenceUnavailableError
from deployments.gateway.inference_calls.client import InferenceClient
from deployments.gateway.login import Logins
from deployments.gateway.service import GatewayService
from deployments.gateway.users import Users
from deployments.inference.api import create_app as create_inference
from deployments.log import MOST, RateLimitFilter
from deployments.store import open_store
from tests.unit.gateway.conftest import DEADLINE_S, FakeInference, access_by, make_tokens
from tests.unit.http.apps import client_of
from tests.unit.inference.serving import FakeService

REQUESTS = 2000
STEP = {"junction_id": "300839359", "obs_data": [0.5]}
ACTION = {"junctionId": "300839359", "observations": [0.5]}


@pytest.fixture
def written():
    """Collect what an operator finds in the file of a replica."""
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[assignment]
    handler.addFilter(RateLimitFilter())
    logger = logging.getLogger("ray.serve")
    before = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    yield records
    logger.removeHandler(handler)
    logger.setLevel(before)


@asynccontextmanager
async def gateway(tmp_path: Path) -> AsyncIterator[FastAPI]:
    """Make one whose inference and whose store are away."""
    (tmp_path / "file").write_text("no folder")
    store, tokens = open_store(f"sqlite:///{tmp_path}/file/x.db"), make_tokens()
    inference = FakeInference(error=InferenceUnavailableError("unreachable"))
    client = InferenceClient(inference, DEADLINE_S)
    logins = Logins(store, Users(store, {}), tokens)
    service = GatewayService(logins, access_by(tokens), client)
    yield create_gateway(service)
    await service.close()


@asynccontextmanager
async def records(tmp_path: Path) -> AsyncIterator[FastAPI]:
    (tmp_path / "file").write_text("no folder")
    store = open_store(f"sqlite:///{tmp_path}/file/x.db")
    yield create_records(RecordService(record_types()["loans"], store))
    await store.close()


@asynccontextmanager
async def inference(tmp_path: Path) -> AsyncIterator[FastAPI]:
    """Make one that fails at every step."""
    yield create_inference(FakeService(RuntimeError("a defect")))


@asynccontextmanager
async def forecast(tmp_path: Path) -> AsyncIterator[FastAPI]:
    """Make one whose model fails."""
    service = DensityService()
    service.slot.model = SimpleNamespace()  # type: ignore[assignment]
    yield create_forecast(service)


CASES: dict[str, tuple[Any, str, dict[str, Any], int]] = {
    "decisions without inference": (gateway, "/traffic/action", {"json": ACTION}, 200),
    "logins without store": (
        gateway,
        "/auth/login",
        {"json": {"username": "ann", "password": "x"}},
        503,
    ),
    "records without store": (
        records,
        "/api/loans",
        {"params": {"mobileNumber": "4354437687"}},
        503,
    ),
    "steps with a defect": (inference, "/predict_action", {"json": STEP}, 500),
    "forecasts with a defect": (forecast, "/predict", {"json": {"data": [[1.0] * 5] * 3}}, 500),
}


@pytest.mark.parametrize("case", CASES)
async def test_thousands_of_failing_requests_are_a_handful_of_lines(case, written, tmp_path):
    make, path, request, status = CASES[case]
    request = request | {"headers": {"Authorization": f"Bearer {make_tokens().issue('ann')}"}}
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(make(tmp_path))
        client = await stack.enter_async_context(client_of(app))
        answers = [await client.post(path, **request) for _ in range(REQUESTS)]
    assert {answer.status_code for answer in answers} == {status}, answers[-1].text
    seconds = time.monotonic() - began
    warnings = [each for each in written if each.levelno >= logging.WARNING]
    assert 1 <= len(warnings) <= (MOST + 2) * (1 + seconds / 10), [*map(str, warnings)]
    assert len(written) - len(warnings) <= 1 + seconds, "an access line a second"
