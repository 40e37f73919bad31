"""Both forecasts on two replicas each, over real HTTP: answers, refusals, a swap, concurrency."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from load_tests.harness.shipped import shipped_application
from load_tests.harness.system import System
from models.artifacts import Card, card_path
from models.density.forecast import DensityForecaster
from models.networks.shipped import JUNCTIONS
from serve_app.settings import Settings

HOURS = [[10.0, 11, 12, 13, 14], [20, 21, 22, 23, 24], [30, 31, 32, 33, 34.5]]
JUNCTION = next(iter(JUNCTIONS))
START = 1_774_000_000


def history(n_samples: int = 60) -> list[dict[str, Any]]:
    return [
        {
            "timestamp": START + 60 * minute,
            "vehicle_count": 10 + minute % 5,
            "avg_speed": 31.0,
            "occupancy": 0.05,
        }
        for minute in range(n_samples)
    ]


@pytest.fixture(scope="module")
def forecasts(system: System) -> Iterator[System]:
    system.deploy(
        shipped_application("density", replicas=2), shipped_application("flow", replicas=2)
    )
    yield system
    system.remove("density", "flow")


@pytest.fixture
def client(forecasts: System) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=forecasts.url, timeout=10) as client:
        yield client


def test_density_answers_what_its_model_says(client: httpx.Client) -> None:
    answer = client.post("/density/predict", json={"data": HOURS})
    assert answer.status_code == 200
    model = DensityForecaster.load(Settings().density_model_path)
    assert answer.json()["edge_ids"] == list(model.edges)
    expected = model(np.array([HOURS]))[0]
    assert answer.json()["prediction"] == pytest.approx(expected.tolist(), abs=1e-3)


@pytest.mark.parametrize("junction", JUNCTIONS)
def test_flow_forecasts_every_junction(client: httpx.Client, junction: str) -> None:
    body = {"junction_id": junction, "historical_data": history()}
    forecast = client.post("/flow/forecast", json=body).raise_for_status().json()
    assert forecast["junction_id"] == junction
    assert forecast["forecast_timestamp"] == START + 59 * 60 + 900
    assert forecast["predicted_flow"] >= 0
    assert 0 < forecast["confidence"] < 1


@pytest.mark.parametrize("path", ["/density/health", "/density/model-info", "/density/docs"])
def test_density_tells_about_itself(client: httpx.Client, path: str) -> None:
    assert client.get(path).status_code == 200


@pytest.mark.parametrize("path", ["/flow/health", "/flow/model_info", "/flow/docs"])
def test_flow_tells_about_itself(client: httpx.Client, path: str) -> None:
    assert client.get(path).status_code == 200


FUTURE = [history(1)[0] | {"timestamp": int(time.time()) + 86_400}]
REFUSED = {
    "density of two hours": ("/density/predict", {"data": HOURS[:2]}, 400),
    "ragged density": ("/density/predict", {"data": [*HOURS[:2], [1.0]]}, 400),
    "strings": ("/density/predict", {"data": [["a"] * 5] * 3}, 400),
    "no samples": ("/flow/forecast", {"junction_id": JUNCTION, "historical_data": []}, 400),
    "unknown junction": ("/flow/forecast", {"junction_id": "x", "historical_data": history()}, 404),
    "100,000 samples": (
        "/flow/forecast",
        {"junction_id": JUNCTION, "historical_data": history(100_000)},
        413,
    ),
    "unordered": (
        "/flow/forecast",
        {"junction_id": JUNCTION, "historical_data": history()[::-1]},
        400,
    ),
    "future": ("/flow/forecast", {"junction_id": JUNCTION, "historical_data": FUTURE}, 400),
    "negative": (
        "/flow/forecast",
        {"junction_id": JUNCTION, "historical_data": [history(1)[0] | {"vehicle_count": -1}]},
        400,
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_body_gets_a_string_detail(client: httpx.Client, case: str) -> None:
    path, body, status = REFUSED[case]
    answer = client.post(path, json=body)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    assert isinstance(answer.json()["detail"], str)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_not_finite_are_refused(client: httpx.Client, number: str) -> None:
    rows = json.dumps(HOURS).replace("34.5", number)
    answer = client.post("/density/predict", content=f'{{"data": {rows}}}')
    assert answer.status_code == 400
    assert "finite" in answer.json()["detail"]


async def test_concurrent_requests_get_each_their_own_answer(forecasts: System) -> None:
    model = DensityForecaster.load(Settings().density_model_path)
    inputs = np.random.default_rng(7).uniform(0, 60, (200, 3, 5)).round(2)
    expected = model(inputs)
    async with httpx.AsyncClient(base_url=forecasts.url, timeout=30) as client:
        answers = await asyncio.gather(
            *(client.post("/density/predict", json={"data": each.tolist()}) for each in inputs)
        )
    got = [answer.raise_for_status().json()["prediction"] for answer in answers]
    assert np.allclose(got, expected, atol=1e-3)


def test_a_model_is_swapped_while_the_replicas_run_and_a_bad_one_leaves_it_in_place(
    forecasts: System, client: httpx.Client, tmp_path: Path
) -> None:
    shipped, other = Settings().density_model_path, tmp_path / "other.safetensors"
    shutil.copy(shipped, other)
    card = Card.model_validate_json(card_path(shipped).read_bytes())
    renamed = card.model_copy(update={"version": "other-1", "test_mae": 12.5})
    card_path(other).write_text(renamed.model_dump_json())
    (tmp_path / "bad.safetensors").write_bytes(b"not a model")
    replicas = [process.pid for process in forecasts.replicas("density")]

    for path in (other, tmp_path / "bad.safetensors"):
        swap = {"model_path": str(path)}
        forecasts.deploy(shipped_application("density", replicas=2, user_config=swap))
        told = [client.get("/density/model-info").json()["test_mae"] for _ in range(8)]
        assert told == [12.5] * 8
    assert [process.pid for process in forecasts.replicas("density")] == replicas
