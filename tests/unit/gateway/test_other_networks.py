"""The gateway for the junctions that a user brings."""

import pytest

from deployments.gateway.errors import InferenceUnavailableError
from deployments.gateway.fallbacks import configured_plan
from deployments.gateway.inference_calls.http_calls import checked_decision
from deployments.gateway.options import GatewayOptions
from deployments.gateway.safety import make_guard
from deployments.gateway.schemas import signal_of
from models.networks.network import read_network
from models.networks.shipped import SHIPPED
from models.signals.clock_plan import InvalidPlanError
from tests.cities import city_of_size, small_city

ACTION = "/traffic/action"
CITY = small_city()
PLAN = """{"name": "by hand", "periods": [{"begin": "00:00", "junctions": {
    "north": {"offset_s": 0, "phases_s": [20, 20, 20]},
    "east": {"offset_s": 0, "phases_s": [30, 30]},
    "west": {"offset_s": 0, "phases_s": [30, 30]}}}]}"""


@pytest.fixture
def network():
    return CITY


async def test_counts_are_divided_by_the_capacities_of_its_file(client, bearer, inference):
    body = {
        "junctionId": "west",
        "observations": [0, 1, 1, 5, 5.5, 6, 26],
        "observationFormat": "vehicle_counts",
    }
    answer = await client.post(ACTION, json=body, headers=bearer)
    assert answer.json()["junctionId"] == "west"
    assert inference.steps[-1].obs == [0, 1, 1, 0.5, 0.5, 0.5, 1]
    answer = await client.post(ACTION, json=body | {"observations": [0] * 8}, headers=bearer)
    assert answer.status_code == 400
    assert (await client.get(ACTION, headers=bearer)).json()["junctionId"] in CITY.ids


async def test_the_document_tells_of_the_city(client):
    schemas = (await client.get("/openapi.json")).json()["components"]["schemas"]
    request = schemas["ActionRequest"]
    assert request["properties"]["junctionId"]["enum"] == ["north", "east", "west"]
    assert request["properties"]["observations"]["maxItems"] == 7
    assert request["example"]["junctionId"] == "north"
    assert schemas["ActionResponse"]["properties"]["predictedAction"]["exclusiveMaximum"] == 3
    assert SHIPPED.ids[0] not in str(schemas)


def test_actions_are_those_of_the_network():
    assert checked_decision({"action": 6}, n_actions=7).action == 6
    with pytest.raises(InferenceUnavailableError):
        checked_decision({"action": 7}, n_actions=7)
    assert [signal_of(action) for action in range(6)] == ["RED", "YELLOW", *["GREEN"] * 4]


def test_a_safety_layer_is_made_of_the_network_file_or_refused_with_a_sentence():
    make_guard(GatewayOptions(), CITY)
    make_guard(GatewayOptions(safety=True), read_network("configs/harbour.json"))
    make_guard(GatewayOptions(safety=True), SHIPPED)
    with pytest.raises(ValueError, match=r"^junction \w+ of the network a city has no states"):
        make_guard(GatewayOptions(safety=True), CITY)


def test_a_fallback_by_plan_needs_a_plan_of_the_city(tmp_path):
    with pytest.raises(InvalidPlanError, match="needs a plan_file for the network a city"):
        configured_plan(GatewayOptions(fallback="plan"), CITY)
    (tmp_path / "plan.json").write_text(PLAN)
    options = GatewayOptions(fallback="plan", plan_file=tmp_path / "plan.json")
    plan = configured_plan(options, CITY)
    assert plan is not None
    assert plan.at("north", 45).phase == 2
    with pytest.raises(InvalidPlanError, match="exactly the known junctions"):
        configured_plan(options, SHIPPED)
    with pytest.raises(InvalidPlanError, match="exactly the known junctions"):
        configured_plan(options, city_of_size(3))
