"""The demo finds the running system, and names what is missing."""

import io

import pytest

from greenwave.client import Client
from greenwave.client.call import Reply, Send
from serve_app.demo.connect import counts_for, credentials_of, prepare
from serve_app.errors import CommandError
from serve_app.settings import Settings
from tests.unit.greenwave.client.play import REFUSED, answer, granted, text
from tests.unit.serve_app.demo.service import Handler, Service
from tests.unit.serve_app.demo.test_gateway_controller import controller_of

CENTER = "joinedS_265580996_300839357"
HEALTHY = {"status": "healthy", "inferenceService": "up", "timestamp": 1}
DECISION = {
    "junctionId": CENTER,
    "predictedAction": 1,
    "signalState": "RED",
    "timestamp": 1,
    "status": "success",
}


def prepare_with(handler: Handler) -> None:
    exchange = Service(handler)
    with Client("http://service", "ann", "secret", exchange=exchange) as client:
        prepare(controller_of(client), "http://service")


def test_unreachable_service_is_named():
    with pytest.raises(CommandError, match=r"No service answers at http://service.*Start it with"):
        prepare_with(lambda _: REFUSED)


def test_a_gateway_without_a_policy_is_not_ready():
    with pytest.raises(CommandError, match="not ready: status degraded"):
        prepare_with(lambda _: answer(503, {**HEALTHY, "status": "degraded"}))


def test_another_server_is_recognised():
    with pytest.raises(CommandError, match="is not Greenwave"):
        prepare_with(lambda _: text(200))


def test_healthy_service_is_reset_before_the_run():
    asked: list[str] = []

    def handler(send: Send) -> Reply:
        asked.append(send.url.removeprefix("http://service/api"))
        if asked[-1] == "/auth/login":
            return granted()
        return answer(body=DECISION if asked[-1] == "/traffic/action" else HEALTHY)

    prepare_with(handler)
    assert asked == ["/traffic/health", "/auth/login", "/traffic/action", "/traffic/reset"]


def test_refused_login_names_the_variables():
    def handler(send: Send) -> Reply:
        return answer(body=HEALTHY) if send.url.endswith("/health") else answer(401)

    with pytest.raises(CommandError, match="JWT_AUTH_USERNAME"):
        prepare_with(handler)


def test_demo_without_a_user_names_what_to_set(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(CommandError, match="JWT_AUTH_USERNAME"):
        credentials_of(Settings(data_dir=tmp_path))


def test_a_policy_that_was_trained_with_other_counts_is_named_before_the_run():
    sizes = dict.fromkeys(("input_shape", "hidden_dim", "n_actions", "n_agents"), 1)
    info = sizes | {"architecture": "GRU", "obs_agent_id": True, "junctions": {}, "counts": "all"}
    exchange = Service(lambda _: answer(body=info))
    with Client("http://service", "ann", "secret", exchange=exchange) as client:
        assert counts_for(client, None, "http://service") == "all"
        assert counts_for(client, "all", "http://service") == "all"
        with pytest.raises(CommandError, match="trained with --counts all, but this run has"):
            counts_for(client, "standing", "http://service")


def test_a_service_of_another_network_is_named_before_the_run():
    def handler(send: Send) -> Reply:
        if send.url.endswith("/login"):
            return granted()
        if send.url.endswith("/action"):
            return answer(400, {"message": "Unknown junctionId 'pier'"})
        return answer(body=HEALTHY)

    with pytest.raises(
        CommandError, match=r"refuses a request for this network: .*Unknown junctionId 'pier'"
    ):
        prepare_with(handler)
