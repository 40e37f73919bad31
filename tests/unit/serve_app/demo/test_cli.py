"""The demo says clearly what it is missing, and compares like with like."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from greenwave.client import Client
from greenwave.client.core.call import Reply, Send
from models.simulation.metrics import Metrics
from serve_app.credentials.first_user import Credentials
from serve_app.demo.cli import (
    DemoError,
    clock_time,
    comparison_rows,
    credentials_of,
    outage_line,
    parse_arguments,
    prepare,
)
from serve_app.demo.inference_controller import InferenceController
from serve_app.demo.outages import Outage, OutageLog
from serve_app.settings import Settings
from tests.unit.greenwave.client.play import REFUSED, answer, text
from tests.unit.serve_app.demo.test_inference_controller import Handler, Service

HEALTHY = {"status": "healthy", "model_loaded": True, "junctions": []}


def prepare_with(handler: Handler) -> None:
    with Client("http://service", exchange=Service(handler)) as client:
        prepare(InferenceController(client, "run", OutageLog(0, 5)), "http://service")


def test_unreachable_service_is_named() -> None:
    with pytest.raises(DemoError, match=r"No service answers at http://service.*Start it first"):
        prepare_with(lambda _: REFUSED)


def test_service_without_a_model_is_not_ready() -> None:
    with pytest.raises(DemoError, match="not ready: status no_model"):
        prepare_with(lambda _: answer(body={**HEALTHY, "status": "no_model"}))


def test_another_server_is_recognised() -> None:
    with pytest.raises(DemoError, match="not this service"):
        prepare_with(lambda _: text(200))


def test_healthy_service_is_reset_before_the_run() -> None:
    asked: list[str] = []

    def handler(send: Send) -> Reply:
        asked.append(send.url.removeprefix("http://service"))
        return answer(body=HEALTHY)

    prepare_with(handler)
    assert asked == ["/health", "/reset_hidden"]


def test_refused_login_names_the_variables() -> None:
    def handler(send: Send) -> Reply:
        return answer(body=HEALTHY) if send.url.endswith("/health") else answer(401)

    with pytest.raises(DemoError, match="JWT_AUTH_USERNAME"):
        prepare_with(handler)


def test_demo_without_a_user_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(DemoError, match="JWT_AUTH_USERNAME"):
        credentials_of(Settings(data_dir=tmp_path))


def test_configured_user_logs_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JWT_AUTH_USERNAME", "ann")
    monkeypatch.setenv("JWT_AUTH_PASSWORD", "secret")
    assert credentials_of(Settings(data_dir=tmp_path)) == Credentials("ann", "secret")


def test_second_instance_has_an_address_of_its_own() -> None:
    assert parse_arguments([]).url == "http://127.0.0.1:8000"
    assert parse_arguments(["--port-base", "31000"]).url == "http://127.0.0.1:31000"


def test_outage_is_told_in_both_times() -> None:
    line = outage_line(Outage(27_000, 27_125, 1000.0, 1012.5, 7, "no answer"))
    assert "simulated 07:30:00 to 07:32:05" in line
    assert "(12.5 s): 7 decisions, no answer" in line


def test_begin_is_a_time_of_day() -> None:
    assert parse_arguments([]).begin == 27_000
    assert clock_time("17:05") == 61_500


@pytest.mark.parametrize("options", [["--begin", "25:00"], ["--begin", "x"], ["--seconds", "7"]])
def test_impossible_options_are_refused(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(options)
    assert options[0] in capsys.readouterr().err


def test_rows_hold_one_value_per_controller_in_order() -> None:
    results = [
        Metrics(1.0, 2.0, 3.0, {"j": 4.0}, demanded=10, arrived=9),
        Metrics(5.0, 6.0, 7.0, {"j": 8.0}, demanded=10, arrived=8),
    ]
    rows = dict(comparison_rows(results))
    assert rows["time loss (s)"] == [3.0, 7.0]
    assert rows["queue j"] == [4.0, 8.0]
