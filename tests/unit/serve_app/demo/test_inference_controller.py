"""The controller over HTTP: applies answers, survives their absence, and counts what it lost."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from greenwave.client import Client, GreenwaveError, Retries
from greenwave.client.core.call import NoReply, Reply, Send
from lab.sim.observation import Observation
from models.networks.shipped import JUNCTIONS, SHIPPED
from serve_app.demo.inference_controller import InferenceController
from serve_app.demo.outages import OutageLog
from tests.unit.greenwave.client import play
from tests.unit.greenwave.client.play import LOST

Handler = Callable[[Send], Reply | NoReply]


class Service:
    """An exchange with the test's own answers."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def __call__(self, send: Send, /) -> Reply | NoReply:
        return self._handler(send)

    def close(self) -> None: ...


def make_controller(handler: Handler) -> InferenceController:
    once = Retries(attempts=1)
    client = Client("http://service", retries=once, exchange=Service(handler))
    return InferenceController(client, "run-1", OutageLog(0, 5), SHIPPED)


def observe() -> dict[str, Observation]:
    return {j.id: np.zeros(j.obs_size, np.float32) for j in JUNCTIONS.values()}


def answer(send: Send, **changed: object) -> Reply:
    """Answer action 1 for every item, unless an item of that junction is given."""
    items = [
        changed.get(item["junction_id"])
        or {"junction_id": item["junction_id"], "action": 1, "confidence": 0.9}
        for item in json.loads(send.body or b"")["items"]
    ]
    return play.answer(body={"items": items})


def test_decision_is_one_request_of_the_run_with_all_observations():
    requests: list[Send] = []

    def handler(send: Send) -> Reply:
        requests.append(send)
        return answer(send)

    controller = make_controller(handler)
    assert controller.act(observe()) == dict.fromkeys(JUNCTIONS, 1)
    (request,) = requests
    assert request.url == "http://service/predict_actions"
    assert request.headers["x-simulation-run"] == "run-1"
    sent = {
        item["junction_id"]: item["obs_data"] for item in json.loads(request.body or b"")["items"]
    }
    assert {name: len(obs) for name, obs in sent.items()} == {
        j.id: j.obs_size for j in JUNCTIONS.values()
    }
    assert controller.outages.decisions == 0
    assert len(controller.latencies_s) == 1


def test_refused_item_loses_only_its_junction():
    error = {"junction_id": "265580972", "error": {"status": 404, "detail": "Unknown junction"}}
    controller = make_controller(lambda request: answer(request, **{"265580972": error}))
    actions = controller.act(observe())
    assert actions.keys() == JUNCTIONS.keys() - {"265580972"}
    assert controller.outages.decisions == 1
    assert "Unknown junction" in controller.outages.outages[0].reason


@pytest.mark.parametrize(("action", "lost"), [(2, 1), (-1, 5), ("1", 5), (None, 5), (True, 5)])
def test_action_that_the_junction_does_not_have_is_not_applied(action, lost):
    """One of another junction loses itself; what is no action at all shows a service gone mad."""
    item = {"junction_id": "265580972", "action": action, "confidence": 1.0}
    controller = make_controller(lambda request: answer(request, **{"265580972": item}))
    assert "265580972" not in controller.act(observe())
    assert controller.outages.decisions == lost


@pytest.mark.parametrize(
    "response",
    [play.unavailable("model_not_loaded", None), play.answer(body={"items": []}), LOST],
    ids=["503", "too few", "lost"],
)
def test_unusable_answer_loses_all_decisions_and_raises_nothing(response):
    controller = make_controller(lambda _: response)
    assert controller.act(observe()) == {}
    assert controller.outages.decisions == 5
    assert controller.outages.outages[0].reason


def test_timeout_loses_the_decisions_and_the_next_one_works_again():
    answers: list[Handler] = [lambda _: LOST, answer]
    controller = make_controller(lambda send: answers.pop(0)(send))
    assert controller.act(observe()) == {}
    assert controller.act(observe()) == dict.fromkeys(JUNCTIONS, 1)
    assert controller.outages.decisions == 5


def test_reset_is_sent_for_the_run_and_its_failure_is_raised():
    asked: list[Send] = []

    def handler(send: Send) -> Reply:
        asked.append(send)
        return play.answer(200 if len(asked) == 1 else 503)

    controller = make_controller(handler)
    controller.reset()
    assert asked[0].url == "http://service/reset_hidden"
    assert asked[0].headers["x-simulation-run"] == "run-1"
    with pytest.raises(GreenwaveError):
        controller.reset()
