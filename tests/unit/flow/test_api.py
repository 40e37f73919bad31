import json
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from deployments.feed.messages import NO_DEMAND, Demand
from deployments.forecast.api import create_app
from models.flow.forecast import FlowForecaster, FlowForecasts
from models.networks.shipped import JUNCTIONS
from tests.unit.forecasters import CARD, flow_service
from tests.unit.http.apps import client_of

JUNCTION = "300839359"
NAN, INFINITY = float("nan"), float("inf")


@pytest.fixture
async def service(tmp_path):
    return await flow_service(tmp_path)


@pytest.fixture
def client(service):
    return client_of(create_app(service))


def sample(minute: int, **changes: Any) -> dict[str, Any]:
    usual = {"vehicle_count": 20 + minute % 7, "avg_speed": 35.5, "occupancy": 0.06}
    return {"timestamp": 1_774_000_000 + 60 * minute} | usual | changes


def body(n_samples: int = 60, junction_id: str = JUNCTION, **changes: Any) -> dict[str, Any]:
    history = [sample(minute) for minute in range(n_samples)]
    return {"junction_id": junction_id, "historical_data": history} | changes


def expected_forecast(folder: Path, junction_id: str) -> FlowForecasts:
    """Ask the model itself for the usual body."""
    model = FlowForecaster.load(folder / "flow-0.safetensors")
    names = ("vehicle_count", "avg_speed", "occupancy")
    window = [[each[name] for name in names] for each in body()["historical_data"]]
    return model(np.array([window]), np.array([model.rows[junction_id]]), np.array([60]))


async def forecasts_of(
    client: httpx.AsyncClient, *histories: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    requests = [body(historical_data=history) for history in histories]
    return [(await client.post("/forecast", json=each)).json() for each in requests]


async def refused(client: httpx.AsyncClient, question: dict[str, Any], status: int = 400) -> str:
    """Return the reason of a refusal; numbers may be such as JSON does not have."""
    answer = await client.post("/forecast", content=json.dumps(question))
    assert answer.status_code == status
    (detail,) = answer.json().values()
    return str(detail)


class TestForecast:
    @pytest.mark.parametrize("junction_id", JUNCTIONS)
    async def test_valid(self, client, junction_id, tmp_path):
        before_ms = time.time_ns() // 1_000_000
        answer = await client.post("/forecast", json=body(junction_id=junction_id))
        assert answer.status_code == 200
        forecast = answer.json()
        assert list(forecast) == [
            *("junction_id", "forecast_timestamp", "predicted_flow"),
            *("confidence", "status", "timestamp"),
        ]
        assert forecast["junction_id"] == junction_id
        assert forecast["forecast_timestamp"] == sample(59)["timestamp"] + 900
        assert type(forecast["predicted_flow"]) is int
        (flow,), (confidence,) = expected_forecast(tmp_path, junction_id)
        assert forecast["predicted_flow"] == round(flow)
        assert forecast["confidence"] == pytest.approx(confidence, abs=1e-3)
        assert forecast["status"] == "success"
        assert before_ms <= forecast["timestamp"] <= time.time_ns() // 1_000_000

    @pytest.mark.parametrize("n_samples", [1, 2, 59, 61, 1440])
    async def test_any_length_of_history(self, client, n_samples):
        answer = await client.post("/forecast", json=body(n_samples))
        assert answer.status_code == 200
        newest = sample(n_samples - 1)["timestamp"]
        assert answer.json()["forecast_timestamp"] == newest + 900

    async def test_a_gap_lowers_the_confidence(self, client):
        steady = [sample(minute, vehicle_count=20) for minute in range(60)]
        full, gap = await forecasts_of(client, steady, steady[:20] + steady[50:])
        assert gap["predicted_flow"] == full["predicted_flow"]
        assert gap["confidence"] < full["confidence"]

    @pytest.mark.parametrize("when", ["at the epoch", "soon after", "a minute ahead of now"])
    async def test_timestamps_of_a_simulation_or_of_a_clock_a_little_ahead(self, client, when):
        newest = {"at the epoch": 0, "soon after": 60}.get(when, int(time.time()) + 60)
        history = [sample(0, timestamp=newest)]
        answer = await client.post("/forecast", json=body(historical_data=history))
        assert answer.json()["forecast_timestamp"] == newest + 900

    @pytest.mark.parametrize("ahead_s", [3600, 10 * 365 * 24 * 3600])
    async def test_future_timestamps(self, client, ahead_s):
        future = int(time.time()) + ahead_s
        history = [sample(0), sample(1, timestamp=future)]
        detail = await refused(client, body(historical_data=history))
        assert detail == f"timestamps must not be in the future: historical_data[1] has {future}"

    @pytest.mark.parametrize(
        ("field", "values"),
        [
            ("vehicle_count", [-1, "7", True, 7.5, None, 10**30]),
            ("avg_speed", [-0.1, "fast", False, None, NAN, INFINITY, -INFINITY]),
            ("occupancy", [1.01, -0.01, [0.1], NAN, INFINITY]),
            ("timestamp", ["now", 1.5, -60, True, 1_774_000_000_000, 10**30]),  # milliseconds
        ],
    )
    async def test_bad_or_missing_value(self, client, field, values):
        for value in values:
            history = [sample(0), sample(1), sample(2, **{field: value}), sample(3)]
            detail = await refused(client, body(historical_data=history))
            assert detail.startswith(f"historical_data[2].{field}: "), value
        del history[2][field]
        detail = await refused(client, body(historical_data=history))
        assert detail == f"historical_data[2].{field}: Field required"

    @pytest.mark.parametrize("minutes", [[0, 0], [1, 0], [0, 1, 2, 2], [0, 5, 3, 6]])
    async def test_unordered_timestamps(self, client, minutes):
        detail = await refused(client, body(historical_data=[sample(each) for each in minutes]))
        assert detail.startswith("timestamps must strictly increase")

    @pytest.mark.parametrize("junction_id", ["nowhere", "", "300839359 ", "x" * 10_000])
    async def test_unknown_junction(self, client, junction_id):
        detail = await refused(client, body(junction_id=junction_id), 404)
        assert detail.startswith("Unknown junction '")
        assert len(detail) < 1000

    @pytest.mark.parametrize(
        ("field", "values"),
        [
            ("junction_id", [None, 300839359, True, ["300839359"]]),
            ("historical_data", [None, {}, "x", [], [3], [None], [[]]]),
        ],
    )
    async def test_another_type(self, client, field, values):
        for value in values:
            assert (await refused(client, body(**{field: value}))).startswith(field), value


class TestStatus:
    async def test_health(self, client):
        health = (await client.get("/health")).json()
        assert abs(health.pop("timestamp") - time.time_ns() // 1_000_000) < 60_000
        assert health == {
            "status": "healthy",
            "model_loaded": True,
            "model_version": CARD.version,
            "forecast_horizon": 15,
        }

    async def test_model_info(self, client):
        info = (await client.get("/model_info")).json()
        assert "90.0%" in info.pop("target_accuracy")
        assert info == {
            "model_type": "LSTM",
            "model_version": CARD.version,
            "input_features": 3,
            "input_window": 60,
            "output_window": 15,
            "trained_on_junctions": list(JUNCTIONS),
        }


async def test_drift_is_the_share_of_values_outside_the_training_range(service, client):
    history = [sample(minute, avg_speed=20.0, occupancy=0.5) for minute in range(60)]
    for late in history[-6:]:
        late["avg_speed"] = 500.0
    await client.post("/forecast", json=body(historical_data=history))
    _, drift = service.take_batches()
    assert drift == pytest.approx({"vehicle_count": 0, "avg_speed": 0.1, "occupancy": 0})
    assert service.predictions == {JUNCTION: 1}


async def test_a_watched_forecast_is_told_with_the_counts_it_was_made_from(service, client):
    await client.post("/forecast", json=body())
    service.on_demand_changed(Demand(True))
    answer = (await client.post("/forecast", json=body(n_samples=10))).json()
    contents = service.take()
    assert contents.requests == 2
    (forecast,) = contents.forecasts
    assert forecast.counts == [float(20 + minute % 7) for minute in range(10)]
    assert forecast.newest + forecast.horizon_s == answer["forecast_timestamp"]
    assert round(forecast.flow) == answer["predicted_flow"]
    service.on_demand_changed(NO_DEMAND)
    await client.post("/forecast", json=body())
    assert service.take().forecasts == []
