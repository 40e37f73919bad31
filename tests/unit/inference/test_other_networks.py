"""The service for a user's own network."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from deployments.inference.api import create_app
from deployments.inference.metrics import InferenceMetrics
from deployments.inference.service import InferenceService
from models.networks.network import Network
from models.networks.shipped import SHIPPED
from models.policy.training_record import TrainingRecord, write_record
from tests.cities import agent_for, city_of_size, save, small_city
from tests.support.local_states import local_engine
from tests.unit.inference.replicas import form_of
from tests.unit.inference.serving import client_of
from tests.unit.metrics.recorded import RecordedMetrics

CITY = small_city()


@contextlib.asynccontextmanager
async def serving(network: Network) -> AsyncIterator[tuple[InferenceService, httpx.AsyncClient]]:
    with local_engine(form_of(network)) as engine:
        service = InferenceService(engine, network)
        async with client_of(create_app(service)) as client:
            yield service, client
        await service.close()


@pytest.fixture
def policy(tmp_path: Path) -> str:
    return str(save(agent_for(CITY), tmp_path / "agent.th"))


async def test_its_junctions_are_answered_and_those_of_the_documents_are_unknown(policy):
    async with serving(CITY) as (service, client):
        await service.policies.start(policy)
        items = [{"junction_id": each, "obs_data": [0.5]} for each in [*CITY.ids, "300839359"]]
        *answers, refused = (await client.post("/predict_actions", json={"items": items})).json()[
            "items"
        ]
        assert [each["junction_id"] for each in answers] == ["north", "east", "west"]
        assert all(each["action"] < 3 for each in answers)
        assert refused["error"] == {
            "status": 404,
            "detail": "Unknown junction '300839359'. Known: ['north', 'east', 'west']",
        }
        long = await client.post(
            "/predict_action", json={"junction_id": "north", "obs_data": [0] * 8}
        )
        assert long.json() == {"detail": "obs_data has 8 values, expected <= 7"}


async def test_a_large_city_does_not_list_its_junctions_in_a_refusal():
    async with serving(city_of_size(51)) as (_, client):
        refused = await client.post("/predict_action", json={"junction_id": "x", "obs_data": []})
        assert refused.json()["detail"] == (
            "Unknown junction 'x'. Known: the 51 of GET /model_info"
        )


@pytest.mark.parametrize(("agent_id", "inputs"), [(True, 10), (False, 7)])
async def test_health_and_model_info_describe_the_city_and_its_policy(tmp_path, agent_id, inputs):
    async with serving(CITY) as (service, client):
        weights = save(agent_for(CITY, agent_id), tmp_path / "a.th")
        write_record(weights, TrainingRecord(counts="all"))
        await service.policies.start(str(weights))
        health = (await client.get("/health")).json()
        assert (health["status"], health["junctions"]) == ("healthy", ["north", "east", "west"])
        info = (await client.get("/model_info")).json()
        assert (info["input_shape"], info["obs_agent_id"]) == (inputs, agent_id)
        assert (info["n_actions"], info["n_agents"], info["counts"]) == (3, 3, "all")
        assert info["junctions"]["west"] == {
            "agent_index": 2,
            "avail_actions": [1, 1, 0],
            "valid_actions": 2,
        }


@pytest.mark.parametrize("part", ["policy", "canary"])
async def test_the_policy_of_another_city_leaves_the_present_one_in_service(tmp_path, policy, part):
    other = str(save(agent_for(SHIPPED), tmp_path / "shipped.th"))
    canary = {"agent_path": other, "states": "new", "mode": "canary", "share": 1.0}
    wanted = {"agent_path": other} if part == "policy" else {"canary": canary}
    async with serving(CITY) as (service, client):
        await service.policies.start(policy)
        before = await client.post("/predict_action", json={"junction_id": "east", "obs_data": []})
        await service.policies.reconfigure(wanted)
        health = (await client.get("/health")).json()
        assert health["status"] == "healthy"
        assert "fc1.weight has shape (128, 24), expected (128, 10)" in health["detail"]
        assert health["detail"].endswith("the file may belong to another network than 'a city'")
        after = await client.post("/predict_action", json={"junction_id": "east", "obs_data": []})
        assert (before.status_code, after.status_code) == (200, 200)
        assert after.headers["X-Hidden-State-Step"] == "2"


async def test_the_openapi_document_describes_the_city():
    async with serving(CITY) as (_, client):
        document = (await client.get("/openapi.json")).json()
        observed = document["components"]["schemas"]["PredictionRequest"]
        assert observed["properties"]["junction_id"]["description"] == "One of north, east, west."
        assert observed["example"] == {"junction_id": "north", "obs_data": [1.0] + [0.0] * 6}
        assert document["components"]["schemas"]["Prediction"]["properties"]["action"][
            "maximum"
        ] == (2)
        assert SHIPPED.ids[0] not in str(document)


@pytest.mark.parametrize(("n", "label"), [(500, "j3"), (501, "all")])
async def test_a_metric_has_a_series_for_each_junction_of_a_city_that_is_not_too_large(
    tmp_path, monkeypatch, n, label
):
    city = city_of_size(n)
    recorded = RecordedMetrics(monkeypatch)
    async with serving(city) as (service, _):
        await service.policies.start(str(save(agent_for(city), tmp_path / "agent.th")))
        await service.predict("run", "j3", [0.5, 2.0])
        InferenceMetrics(service).publish()
    ((made, count),) = [
        (key, n) for key, n in recorded.counted.items() if key[0] == "inference_predictions"
    ]
    assert (made[3], count) == (label, 1)
    values = {key[-1]: n for key, n in recorded.counted.items() if "observed_values" in key[0]}
    assert values == {"outside": 1, "inside": 5}
