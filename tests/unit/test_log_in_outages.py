"""Thousands of requests that fail make a handful of lines, whatever it is that fails."""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI

from deployments.density.service import DensityService
from deployments.forecast.api import create_app
from deployments.gateway.errors import InferenceUnavailableError
from deployments.log import MOST, RateLimitFilter
from tests.unit.gateway.conftest import make_tokens
from tests.unit.http.apps import client_of
from tests.unit.test_services import gateway, inference, records

REQUESTS = 2000
STEP = {"junction_id": "300839359", "obs_data": [0.5]}
ACTION = {"junctionId": "300839359", "observations": [0.5]}
DOWN = InferenceUnavailableError("unreachable")


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


def broken_forecast(folder: Path) -> FastAPI:
    service = DensityService()
    service.slot.model = SimpleNamespace()  # type: ignore[assignment]
    return create_app(service)


CASES: dict[str, tuple[Callable[[Path], FastAPI], str, dict[str, Any], int]] = {
    "no inference": (gateway(DOWN), "/traffic/action", {"json": ACTION}, 200),
    "no store": (records("loans"), "/api/loans", {"params": {"mobileNumber": "4354437687"}}, 503),
    "a step": (inference(RuntimeError("a defect")), "/predict_action", {"json": STEP}, 500),
    "a forecast": (broken_forecast, "/predict", {"json": {"data": [[1.0] * 5] * 3}}, 500),
}


@pytest.mark.parametrize("case", CASES)
async def test_thousands_of_failing_requests_are_a_handful_of_lines(case, written, tmp_path):
    make, path, request, status = CASES[case]
    no_folder = tmp_path / "file"
    no_folder.touch()
    request = request | {"headers": {"Authorization": f"Bearer {make_tokens().issue('ann')}"}}
    began = time.monotonic()
    async with client_of(make(no_folder)) as client:
        answers = [await client.post(path, **request) for _ in range(REQUESTS)]
    assert {answer.status_code for answer in answers} == {status}, answers[-1].text
    seconds = time.monotonic() - began
    warnings = [each for each in written if each.levelno >= logging.WARNING]
    assert 1 <= len(warnings) <= (MOST + 2) * (1 + seconds / 10), [*map(str, warnings)]
    assert len(written) - len(warnings) <= 1 + seconds, "an access line a second"
