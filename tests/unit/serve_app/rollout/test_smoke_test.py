"""Problems of a system that runs, but not as its config asks."""

import json

import pytest

from models.networks.shipped import SHIPPED
from serve_app.errors import DeployError
from serve_app.rollout import smoke_test
from serve_app.rollout.smoke_test import find_problems, has_policy, predict_once
from tests.support.local_server import Answer, Request, json_answer, serving

Answers = dict[str, tuple[int, object]]
INFERENCE = {"route_prefix": "/", "import_path": "serve_app.inference:build"}
GATEWAY = {"route_prefix": "/api", "import_path": "serve_app.gateway:build"}
OTHER = {"route_prefix": "/flow", "import_path": "serve_app.flow:build"}


@pytest.fixture
def system():
    """Serve each path as the test asks; yield the URL and the answers."""
    answers: Answers = {}

    def respond(request: Request) -> Answer:
        return json_answer(*answers.get(request.path, (404, {})))

    with serving(respond) as url:
        yield url, answers


def test_a_system_that_runs_as_configured_has_no_problems(system):
    url, answers = system
    answers["/health"] = (200, {"status": "healthy"})
    answers["/api/traffic/health"] = (200, {"status": "healthy"})
    assert list(find_problems(url, [INFERENCE, GATEWAY, OTHER])) == []
    assert has_policy(url)
    answers["/health"] = (200, {"status": "no_model", "detail": "new.th: not a policy"})
    reported = "the inference service reports: new.th: not a policy"
    assert list(find_problems(url, [INFERENCE])) == [reported]
    assert not has_policy(url)


def test_a_service_that_is_not_ready_is_reported_with_the_reason(system):
    url, answers = system
    checks = {"model": "No model is loaded.", "store": "ok"}
    answers["/flow/readyz"] = (503, {"status": "not ready", "checks": checks})
    assert list(find_problems(url, [OTHER], 0)) == ["/flow is not ready: No model is loaded."]
    warned = {"model": "ok", "front": "a warning"}
    answers["/flow/readyz"] = (200, {"status": "ready", "checks": warned})
    assert list(find_problems(url, [OTHER], 0)) == []


def test_a_service_that_becomes_ready_a_moment_later_is_not_reported(system, monkeypatch):
    url, answers = system
    answers["/console/readyz"] = (503, {"checks": {"feed": "The feed does not answer."}})

    def becomes_ready(seconds: float) -> None:
        answers["/console/readyz"] = (200, {"checks": {"feed": "ok"}})

    monkeypatch.setattr("serve_app.rollout.smoke_test.time.sleep", becomes_ready)
    assert list(find_problems(url, [OTHER | {"route_prefix": "/console"}])) == []


@pytest.mark.parametrize("answer", [(503, {"status": "degraded"}), (404, []), (200, "healthy")])
def test_a_gateway_without_inference_is_reported(system, answer):
    url, answers = system
    answers["/api/traffic/health"] = answer
    (problem,) = find_problems(url, [GATEWAY], timeout_s=0)
    assert "inference_app" in problem


def test_the_prediction_is_returned_and_a_lasting_failure_is_reported(system, monkeypatch):
    url, answers = system
    answers["/predict_action"] = (200, {"action": 1})
    assert json.loads(predict_once(url, {}, SHIPPED)) == {"action": 1}
    monkeypatch.setattr(smoke_test, "TIMEOUT_S", 0.0)
    answers["/predict_action"] = (503, {"detail": "Model not loaded"})
    with pytest.raises(DeployError, match=r"503.*Model not loaded"):
        predict_once(url, {}, SHIPPED)
    answers["/predict_action"] = (401, {"detail": "A bearer token is required"})
    with pytest.raises(DeployError, match="Set INFERENCE_TOKEN"):
        predict_once(url, {}, SHIPPED)
