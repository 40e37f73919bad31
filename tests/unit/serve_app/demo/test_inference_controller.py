"""The controller over HTTP: applies answers, survives their absence, and counts what it lost."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
import numpy as np
import pytest

from models.junctions import JUNCTIONS
from models.simulation.observation import Observation
from serve_app.demo.inference_controller import InferenceController
from serve_app.demo.outages import OutageLog

Handler = Callable[[httpx.Request], httpx.Response]


def make_controller(handler: Handler) -> InferenceController:
    client = httpx.Client(base_url="http://service", transport=httpx.MockTransport(handler))
    return InferenceController(client, "run-1", OutageLog(0, 5))


def observe() -> dict[str, Observation]:
    return {j.id: np.zeros(j.obs_size, np.float32) for j in JUNCTIONS.values()}


def answer(request: httpx.Request, **changed: object) -> httpx.Response:
    """Answer action 1 for every item, unless an item of that junction is given."""
    items = [
        changed.get(item["junction_id"])
        or {"junction_id": item["junction_id"], "action": 1, "confidence": 0.9}
        for item in json.loads(request.content)["items"]
    ]
    return httpx.Response(200, json={"items": items})


def test_decision_is_one_request_of_the_run_with_all_observations() -> None:
    requests: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return answer(request)

    controller = make_controller(handler)
    assert controller.act(observe()) == dict.fromkeys(JUNCTIONS, 1)
    (request,) = requests
    assert request.url.path == "/predict_actions"
    assert request.headers["X-Simulation-Run"] == "run-1"
    sent = {item["junction_id"]: item["obs_data"] for item in json.loads(request.content)["items"]}
    assert {name: len(obs) for name, obs in sent.items()} == {
        j.id: j.obs_size for j in JUNCTIONS.values()
    }
    assert controller.outages.decisions == 0
    assert len(controller.latencies_s) == 1


def test_refused_item_loses_only_its_junction() -> None:
    error = {"junction_id": "265580972", "error": {"status": 404, "detail": "Unknown junction"}}
    controller = make_controller(lambda request: answer(request, **{"265580972": error}))
    actions = controller.act(observe())
    assert actions.keys() == JUNCTIONS.keys() - {"265580972"}
    assert controller.outages.decisions == 1
    assert "Unknown junction" in controller.outages.outages[0].reason


@pytest.mark.parametrize("action", [2, -1, "1", None, True])
def test_action_that_the_junction_does_not_have_is_not_applied(action: object) -> None:
    item = {"junction_id": "265580972", "action": action, "confidence": 1.0}
    controller = make_controller(lambda request: answer(request, **{"265580972": item}))
    assert "265580972" not in controller.act(observe())
    assert controller.outages.decisions == 1


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(503, json={"detail": "Model not loaded"}),
        httpx.Response(200, text="not json"),
        httpx.Response(200, json=[]),
        httpx.Response(200, json={"items": [{"junction_id": "unknown", "action": 0}]}),
        httpx.Response(200, json={"items": ["nonsense"]}),
    ],
    ids=["503", "no json", "no items", "unknown junction", "no object"],
)
def test_unusable_answer_loses_all_decisions_and_raises_nothing(response: httpx.Response) -> None:
    controller = make_controller(lambda _: response)
    assert controller.act(observe()) == {}
    assert controller.outages.decisions == 5
    assert controller.outages.outages[0].reason


def test_timeout_loses_the_decisions_and_the_next_one_works_again() -> None:
    answers: list[Handler] = [_time_out, answer]
    controller = make_controller(lambda request: answers.pop(0)(request))
    assert controller.act(observe()) == {}
    assert controller.act(observe()) == dict.fromkeys(JUNCTIONS, 1)
    assert controller.outages.decisions == 5


def test_reset_is_sent_for_the_run_and_its_failure_is_raised() -> None:
    paths: list[tuple[str, str]] = []

    def handler(request: httpx.Request) -> httpx.Response:
        paths.append((request.url.path, request.headers["X-Simulation-Run"]))
        return httpx.Response(200 if len(paths) == 1 else 503)

    controller = make_controller(handler)
    controller.reset()
    assert paths == [("/reset_hidden", "run-1")]
    with pytest.raises(httpx.HTTPStatusError):
        controller.reset()


def _time_out(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout("slow", request=request)
