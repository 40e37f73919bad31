"""What both forecasts do without a model, with a file that cannot be served, and under load."""

import asyncio
from typing import Any

import pytest

from deployments.density.service import DensityService
from deployments.flow.service import FlowService
from deployments.forecast.api import create_app
from tests.unit.forecasters import write_density, write_flow
from tests.unit.http.apps import client_of

SAMPLE = {"timestamp": 1_774_000_000, "vehicle_count": 20, "avg_speed": 35.5, "occupancy": 0.06}
FLOW = {"junction_id": "300839359", "historical_data": [SAMPLE]}
FORECASTS: dict[str, tuple[Any, Any, str, Any]] = {
    "/predict": (DensityService, write_density, "/model-info", {"data": [[10.0] * 5] * 3}),
    "/forecast": (FlowService, write_flow, "/model_info", FLOW),
}


@pytest.mark.parametrize("path", FORECASTS)
async def test_health_says_what_is_served_and_nothing_is_forecast_without_a_model(path, tmp_path):
    make_service, write, info, body = FORECASTS[path]
    service = make_service()
    async with client_of(create_app(service)) as client:
        refused = await client.post(path, json=body)
        assert (refused.status_code, refused.json()) == (503, {"detail": "Model not loaded"})
        health = await client.get("/health")
        assert (health.status_code, health.json()["status"]) == (200, "unhealthy")
        assert (await client.get(info)).status_code == 200
        await service.slot.load(str(write(tmp_path)))
        await service.slot.load(tmp_path / "missing.pt")
        health = await client.get("/health")
        assert health.json()["status"] == "healthy"
        assert "missing.pt" in health.text, "it is not served"


@pytest.mark.parametrize("path", FORECASTS)
async def test_waiting_requests_share_a_batch(path, tmp_path):
    make_service, write, _, body = FORECASTS[path]
    service = make_service()
    await service.slot.load(str(write(tmp_path)))
    async with client_of(create_app(service)) as client:
        answers = await asyncio.gather(*(client.post(path, json=body) for _ in range(20)))
    assert {answer.status_code for answer in answers} == {200}
    batches, _ = service.take_batches()
    assert sum(size for size, _ in batches) == 20
    assert len(batches) < 20
