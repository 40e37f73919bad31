"""The demo finds the running system, and names what is missing."""

from __future__ import annotations

import io

import pytest

from greenwave.client import Client
from greenwave.client.core.call import Reply, Send
from models.networks.shipped import SHIPPED
from serve_app.demo.connect import credentials_of, prepare
from serve_app.demo.inference_controller import InferenceController
from serve_app.demo.outages import OutageLog
from serve_app.errors import CommandError
from serve_app.identity.first_user import Credentials
from serve_app.settings import Settings
from tests.unit.greenwave.client.play import REFUSED, answer, text
from tests.unit.serve_app.demo.test_inference_controller import Handler, Service

CENTER = "joinedS_265580996_300839357"
HEALTHY = {"status": "healthy", "model_loaded": True, "junctions": []}


def prepare_with(handler: Handler) -> None:
    with Client("http://service", exchange=Service(handler)) as client:
        prepare(InferenceController(client, "run", OutageLog(0, 5), SHIPPED), "http://service")


def test_unreachable_service_is_named():
    with pytest.raises(CommandError, match=r"No service answers at http://service.*Start it with"):
        prepare_with(lambda _: REFUSED)


def test_service_without_a_model_is_not_ready():
    with pytest.raises(CommandError, match="not ready: status no_model"):
        prepare_with(lambda _: answer(body={**HEALTHY, "status": "no_model"}))


def test_another_server_is_recognised():
    with pytest.raises(CommandError, match="is not Greenwave"):
        prepare_with(lambda _: text(200))


def test_healthy_service_is_reset_before_the_run():
    asked: list[str] = []

    def handler(send: Send) -> Reply:
        asked.append(send.url.removeprefix("http://service"))
        if asked[-1] == "/predict_action":
            return answer(body={"junction_id": CENTER, "action": 1, "confidence": 0.9})
        return answer(body=HEALTHY)

    prepare_with(handler)
    assert asked == ["/health", "/predict_action", "/reset_hidden"]


def test_refused_login_names_the_variables():
    def handler(send: Send) -> Reply:
        return answer(body=HEALTHY) if send.url.endswith("/health") else answer(401)

    with pytest.raises(CommandError, match="JWT_AUTH_USERNAME"):
        prepare_with(handler)


def test_demo_without_a_user_names_what_to_set(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(CommandError, match="JWT_AUTH_USERNAME"):
        credentials_of(Settings(data_dir=tmp_path))


def test_configured_user_logs_in(tmp_path, monkeypatch):
    monkeypatch.setenv("JWT_AUTH_USERNAME", "ann")
    monkeypatch.setenv("JWT_AUTH_PASSWORD", "secret")
    assert credentials_of(Settings(data_dir=tmp_path)) == Credentials("ann", "secret")


def test_a_service_of_another_network_is_named_before_the_run():
    def handler(send: Send) -> Reply:
        if send.url.endswith("/predict_action"):
            return answer(404, {"detail": "Unknown junction 'pier'. Known: mole, quay"})
        return answer(body=HEALTHY)

    with pytest.raises(
        CommandError, match=r"refuses a request for this network: .*Unknown junction 'pier'"
    ):
        prepare_with(handler)
