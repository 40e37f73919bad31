"""Every route, field, status and message of the contract."""

import asyncio
import json
import math
from typing import Any

import httpx
import pytest

from deployments.http import shedding
from deployments.http.probes import Probes
from deployments.inference.api import create_app
from models.networks.shipped import JUNCTIONS
from tests.support.waiting import until_async
from tests.unit.inference.policies import BIG, REFERENCE, SMALL, observations
from tests.unit.inference.replicas import running
from tests.unit.inference.serving import FakeService, client_of

STEP_HEADER = "x-hidden-state-step"


def body_of(junction: Any = SMALL, obs: Any = (0.5, 0.25), **more: Any) -> dict[str, Any]:
    return {"junction_id": junction, "obs_data": obs, **more}


async def post_text(client: httpx.AsyncClient, path: str, text: str | bytes) -> httpx.Response:
    return await client.post(path, content=text, headers={"content-type": "application/json"})


async def steps_made(client: httpx.AsyncClient, junction: str = SMALL, run: str = "default") -> int:
    """Return the number of the junction's steps so far, and make one more to find out."""
    response = await client.post(
        "/predict_action", json=body_of(junction, [0.1]), headers={"X-Simulation-Run": run}
    )
    return int(response.headers[STEP_HEADER]) - 1


class TestPredictAction:
    @pytest.mark.parametrize("junction", JUNCTIONS)
    async def test_answers_are_those_of_the_formulas(self, client, junction):
        size = JUNCTIONS[junction].obs_size
        wanted = observations(10, size=size)
        expected = REFERENCE.replay(junction, wanted)
        for n, (obs, (action, confidence)) in enumerate(zip(wanted, expected, strict=True)):
            response = await client.post("/predict_action", json=body_of(junction, obs))
            assert response.status_code == 200
            assert response.headers["content-type"] == "application/json"
            assert response.headers[STEP_HEADER] == str(n + 1)
            prediction = response.json()
            assert list(prediction) == ["junction_id", "action", "confidence"]
            assert prediction["junction_id"] == junction
            assert prediction["confidence"] == pytest.approx(confidence, abs=2e-4)
            assert type(prediction["action"]) is int
            if confidence > 0.501:
                assert prediction["action"] == action
            assert prediction["action"] in range(JUNCTIONS[junction].n_phases)

    @pytest.mark.parametrize("obs", [[], [1, 0, 1], [0.5] * 19, [-1e10], [3e20], [1e-300]])
    async def test_up_to_19_finite_numbers_are_accepted(self, client, obs):
        assert (await client.post("/predict_action", json=body_of(obs=obs))).status_code == 200

    async def test_unknown_fields_and_content_types_do_no_harm(self, client):
        response = await client.post(
            "/predict_action",
            content=json.dumps(body_of(metadata={"a": 1})),
            headers={"content-type": "text/plain"},
        )
        assert response.status_code == 200

    @pytest.mark.parametrize("junction", ["nope", "", "J" * 5000, "ä€😀"])
    async def test_an_unknown_junction_is_404_and_named(self, client, junction):
        response = await client.post("/predict_action", json=body_of(junction))
        assert response.status_code == 404
        assert response.json() == {
            "detail": f"Unknown junction '{junction[:100]}'. Known: {list(JUNCTIONS)}"
        }

    async def test_too_many_values_are_400(self, client):
        response = await client.post("/predict_action", json=body_of(obs=[0.5] * 20))
        assert response.status_code == 400
        assert response.json() == {"detail": "obs_data has 20 values, expected <= 19"}

    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"junction_id": SMALL},
            {"obs_data": [0.5]},
            body_of(None),
            body_of(300839359),
            body_of(obs="0.5"),
            body_of(obs=["0.5"]),
            body_of(obs=[True]),
            body_of(obs=[0.5, 1e39]),
            body_of(obs=[-3.5e38]),
            body_of(run_id=5),
            [body_of()],
            None,
        ],
        ids=str,
    )
    async def test_a_body_of_another_form_is_422(self, client, body):
        response = await client.post("/predict_action", json=body)
        assert response.status_code == 422
        for each in response.json()["detail"]:
            assert {"type", "loc", "msg"} <= each.keys()
            assert each["loc"][0] == "body"
            assert "input" not in each
        assert await steps_made(client) == 0


class TestRuns:
    @pytest.mark.parametrize("run", ["default", "a", "A-Z_0.9:x", "x" * 64])
    async def test_header_and_body_name_the_same_runs(self, client, run):
        await client.post("/predict_action", json=body_of(run_id=run))
        await client.post("/predict_action", json=body_of())
        assert await steps_made(client, run=run) == (2 if run == "default" else 1)

    async def test_both_alike_is_fine_and_both_different_is_400(self, client):
        header = {"X-Simulation-Run": "a"}
        same = await client.post("/predict_action", json=body_of(run_id="a"), headers=header)
        other = await client.post("/predict_action", json=body_of(run_id="b"), headers=header)
        assert same.status_code == 200
        assert other.status_code == 400
        assert other.json() == {"detail": "X-Simulation-Run and run_id name different runs"}
        assert await steps_made(client, run="a") == 1
        assert await steps_made(client, run="b") == 0

    @pytest.mark.parametrize("run", ["", "x" * 65, "a b", "ä", "a\n"])
    @pytest.mark.parametrize("path", ["/predict_action", "/predict_actions", "/reset_hidden"])
    async def test_illegal_names_are_400(self, client, path, run):
        body = {"run_id": run}
        if path != "/reset_hidden":
            body |= body_of(items=[body_of()])
        response = await client.post(path, json=body)
        assert response.status_code == 400
        assert response.json() == {
            "detail": "A run id is 1 to 64 characters of A-Z a-z 0-9 . _ : -"
        }

    @pytest.mark.parametrize("name", ["run", "runId", "RunID", "Idempotency-Key", "request_id"])
    @pytest.mark.parametrize("path", ["/predict_action", "/predict_actions"])
    async def test_a_name_in_a_member_that_is_not_read_is_422(self, client, path, name):
        body = body_of(items=[body_of()], **{"metadata": {}, name: "monday"})
        response = await client.post(path, json=body)
        assert response.status_code == 422
        (fault,) = response.json()["detail"]
        assert (fault["type"], fault["loc"]) == ("misnamed", ["body", name])
        assert fault["msg"] == (
            f"{name} is not read here. A run is named by the header X-Simulation-Run, a key by"
            " Idempotency-Key"
        )
        response = await client.post(f"{path}?{name}=", json=body_of(items=[body_of()]))
        assert (response.status_code, response.json()) == (422, {"detail": fault["msg"]})
        assert await steps_made(client) == 0


class TestResetHidden:
    @pytest.mark.parametrize("body", [b"", b"  ", b"null", b"{}", b'{"run_id": null}'])
    async def test_an_empty_body_resets_the_default_run(self, client, body):
        for junction in JUNCTIONS:
            await client.post("/predict_action", json=body_of(junction))
        for run in ("a", "b", "other"):
            await client.post("/predict_action", json=body_of(run_id=run))
        await client.post("/reset_hidden", json={"run_id": "a"})
        await client.post("/reset_hidden", headers={"X-Simulation-Run": "b"})
        response = await post_text(client, "/reset_hidden", body)
        assert response.status_code == 200
        assert response.json() == {
            "status": "ok",
            "message": "Hidden states reset for all junctions",
        }
        for junction in JUNCTIONS:
            assert await steps_made(client, junction) == 0
        assert [await steps_made(client, run=run) for run in ("a", "b", "other")] == [0, 0, 1]

    @pytest.mark.parametrize(
        "body",
        [
            b"{",
            b"[]",
            b'{"run_id": 5}',
            b'{"run_id": NaN}',
            b'{"run_id": "\\ud800"}',
            b'{"runId": "monday"}',
        ],
    )
    async def test_a_bad_body_is_422_and_resets_nothing(self, client, body):
        await client.post("/predict_action", json=body_of())
        response = await post_text(client, "/reset_hidden", body)
        assert response.status_code == 422
        assert isinstance(response.json()["detail"], list)
        assert await steps_made(client) == 1

    async def test_a_query_that_names_a_run_resets_nothing(self, client):
        await client.post("/predict_action", json=body_of())
        response = await client.post("/reset_hidden?run_id=monday")
        assert response.status_code == 422
        assert "X-Simulation-Run" in response.json()["detail"]
        assert await steps_made(client) == 1


class TestPredictActions:
    async def test_items_are_answered_in_their_order(self, client):
        wanted = [(junction, obs) for obs in observations(200) for junction in JUNCTIONS]
        response = await client.post(
            "/predict_actions", json={"items": [body_of(*each) for each in wanted]}
        )
        assert response.status_code == 200
        items = response.json()["items"]
        assert [item["junction_id"] for item in items] == [junction for junction, _ in wanted]
        for junction in JUNCTIONS:
            expected = REFERENCE.replay(junction, [obs for j, obs in wanted if j == junction])
            got = [item["confidence"] for item in items if item["junction_id"] == junction]
            assert got == pytest.approx([confidence for _, confidence in expected], abs=3e-4)

    async def test_a_bad_item_changes_nothing_and_spoils_no_other(self, client):
        bad: list[tuple[Any, int, str | None, str]] = [
            (body_of("nope"), 404, "nope", "Unknown junction 'nope'. Known: "),
            (body_of(obs=[0.0] * 20), 400, SMALL, "obs_data has 20 values, expected <= 19"),
            (body_of(obs=[True]), 422, SMALL, "obs_data.0: Input should be a valid number"),
            (body_of(obs=[1e39]), 422, SMALL, "obs_data.0: "),
            (body_of(obs=[1e38, -1e38] * 9), 422, SMALL, "obs_data is so large"),
            (body_of(5), 422, None, "junction_id: Input should be a valid string"),
            (body_of(run_id="r"), 422, SMALL, "run_id is not read here. A run is named by the"),
            ({"junction_id": SMALL}, 422, SMALL, "obs_data: Field required"),
            ({}, 422, None, "junction_id: Field required"),
            (None, 422, None, "item: "),
            ("text", 422, None, "item: "),
            ([SMALL, [0.5]], 422, None, "item: "),
        ]
        items: list[Any] = [body_of(obs=[0.1])]
        for item, *_ in bad:
            items += [item, body_of(obs=[0.1])]
        response = await client.post("/predict_actions", json={"items": items, "run_id": "r"})
        answered = response.json()["items"]
        assert len(answered) == len(items)
        expected = REFERENCE.replay(SMALL, [[0.1]] * (len(bad) + 1))
        confidences = [item["confidence"] for item in answered[::2]]
        assert confidences == pytest.approx([c for _, c in expected], abs=3e-4)
        for (_, status, junction, detail), got in zip(bad, answered[1::2], strict=True):
            assert got.keys() == {"junction_id", "error"}
            assert got["junction_id"] == junction
            assert got["error"]["status"] == status
            assert got["error"]["detail"].startswith(detail)
        assert await steps_made(client, run="r") == len(bad) + 1
        response = await client.post("/predict_actions", json={"items": [1, body_of("x")]})
        assert [item["error"]["status"] for item in response.json()["items"]] == [422, 404]

    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"items": []},
            {"items": [body_of()] * 1001},
            {"items": body_of()},
            {"items": [body_of()], "run_id": 5},
            [body_of()],
            None,
        ],
        ids=lambda body: str(body)[:40],
    )
    async def test_a_body_of_another_form_is_422_as_a_whole(self, client, body):
        response = await client.post("/predict_actions", json=body)
        assert response.status_code == 422
        assert response.json()["detail"][0]["loc"][0] == "body"
        assert len(response.content) < 1000
        assert await steps_made(client) == 0


class TestStatus:
    async def test_health_and_model_info(self, client):
        response = await client.get("/health")
        assert response.status_code == 200
        assert response.json() == {
            "status": "healthy",
            "model_loaded": True,
            "junctions": list(JUNCTIONS),
        }
        info = (await client.get("/model_info")).json()
        junctions = info.pop("junctions")
        assert info == {
            "architecture": "RNNAgent (GRU)",
            "input_shape": 24,
            "hidden_dim": 128,
            "n_actions": 4,
            "n_agents": 5,
            "obs_agent_id": True,
            "counts": "standing",
        }
        assert junctions[BIG] == {
            "agent_index": 0,
            "avail_actions": [1, 1, 1, 1],
            "valid_actions": 4,
        }
        assert [each["agent_index"] for each in junctions.values()] == [0, 1, 2, 3, 4]
        assert all(
            junctions[small]
            == {"agent_index": n, "avail_actions": [1, 1, 0, 0], "valid_actions": 2}
            for n, small in enumerate(JUNCTIONS)
            if n
        )

    async def test_without_a_model_nothing_is_predicted_and_all_else_answers(self, empty_service):
        async with client_of(create_app(empty_service)) as client:
            refused = await client.post("/predict_action", json=body_of())
            assert (refused.status_code, refused.json()) == (503, {"detail": "Model not loaded"})
            assert refused.headers["x-error-code"] == "model_not_loaded"
            several = await client.post("/predict_actions", json={"items": [body_of()]})
            assert several.json()["items"][0]["error"] == {
                "status": 503,
                "detail": "Model not loaded",
                "code": "model_not_loaded",
            }
            health = (await client.get("/health")).json()
            assert (health["status"], health["model_loaded"]) == ("no_model", False)
            assert (await client.get("/model_info")).status_code == 200
            assert (await client.post("/reset_hidden")).status_code == 200

    async def test_a_service_with_a_policy_and_a_table_is_ready(self, empty_service, policy_file):
        probes = Probes(checks=empty_service.checks())
        async with client_of(create_app(empty_service, probes)) as client:

            async def checks() -> Any:
                probes._checked_at = -math.inf
                response = await client.get("/readyz")
                assert response.status_code == (
                    200 if {"ok"} == {*response.json()["checks"].values()} else 503
                )
                return response.json()["checks"]

            assert await checks() == {
                "model": "No policy is loaded; /health says why.",
                "hidden_states": "ok",
            }
            await empty_service.policies.primary.slot.load(str(policy_file))
            assert await checks() == {"model": "ok", "hidden_states": "ok"}
            empty_service.engine._shards[0].table.page.valid_until = 0.0
            assert await checks() == {
                "model": "ok",
                "hidden_states": "The hidden states cannot be reached.",
            }
            health = await client.get("/health")
            assert (health.status_code, health.json()["status"]) == (200, "unhealthy")


class TestLoad:
    async def test_at_the_limit_on_states_a_new_run_is_503_and_health_says_why(self, policy_folder):
        async with running(1, policy_folder, max_states=1) as replicas:
            (service,) = replicas.services
            client = client_of(create_app(service))
            assert await steps_made(client, run="old") == 0
            refused = await client.post("/predict_action", json=body_of(run_id="new"))
            assert refused.status_code == 503
            assert refused.json() == {
                "detail": "All 1 hidden states (max_states) are in use. Reset a run, or wait until "
                "an idle one expires"
            }
            assert refused.headers["x-error-code"] == "too_many_states"
            assert int(refused.headers["retry-after"]) == 60
            several = await client.post(
                "/predict_actions", json={"run_id": "new", "items": [body_of()]}
            )
            assert several.json()["items"][0]["error"]["code"] == "too_many_states"
            health = (await client.get("/health")).json()
            assert (health["status"], health["model_loaded"]) == ("unhealthy", True)
            assert health["detail"] == "the limit on hidden states (max_states) is reached"
            assert await steps_made(client, run="old") == 1

    async def test_a_reset_is_served_beyond_the_limit_on_waiting_requests(
        self, service, monkeypatch
    ):
        monkeypatch.setattr(shedding, "MAX_AT_WORK", 0)
        async with client_of(create_app(service)) as client:
            assert (await client.post("/reset_hidden")).status_code == 200

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("/predict_action", body_of()),
            ("/predict_actions", {"items": [body_of()] * 50}),
        ],
    )
    async def test_a_client_that_disconnects_before_its_steps_cancels_them_all(self, path, body):
        fake = FakeService(None)
        async with client_of(create_app(fake)) as client:
            predictions = asyncio.create_task(client.post(path, json=body))
            await until_async(lambda: bool(fake.steps or fake.rows))
            predictions.cancel()
            await asyncio.wait([predictions])
        assert all(step.cancelled() for step in fake.steps)
        assert all(rows.done() for rows in fake.rows), "a row without an outcome is still stepped"
        assert predictions.cancelled(), "another error would be logged"
