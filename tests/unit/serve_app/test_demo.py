"""The demo says clearly what it is missing, and compares like with like."""

from __future__ import annotations

import httpx
import pytest

from models.simulation.metrics import Metrics
from serve_app.demo import DemoError, clock_time, comparison_rows, parse_arguments, prepare_service
from serve_app.remote_signals import InferenceController


def prepare(handler: httpx.MockTransport) -> None:
    with httpx.Client(base_url="http://service", transport=handler) as client:
        prepare_service(client, InferenceController(client, "run"))


def test_unreachable_service_is_named() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with pytest.raises(DemoError, match=r"No service answers at http://service.*Start it first"):
        prepare(httpx.MockTransport(refuse))


def test_service_without_a_model_is_not_ready() -> None:
    response = httpx.Response(200, json={"status": "no_model"})
    with pytest.raises(DemoError, match="not ready: status no_model"):
        prepare(httpx.MockTransport(lambda _: response))


def test_another_server_is_recognised() -> None:
    with pytest.raises(DemoError, match="not this service"):
        prepare(httpx.MockTransport(lambda _: httpx.Response(200, text="<html>")))


def test_healthy_service_is_reset_before_the_run() -> None:
    paths: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.path)
        return httpx.Response(200, json={"status": "healthy"})

    prepare(httpx.MockTransport(handler))
    assert paths == ["/health", "/reset_hidden"]


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
