"""The demo's command line: what it drives by default, and what does not go together."""

import pytest

from serve_app.demo.cli import clock_time, main, parse_arguments


def test_second_instance_has_an_address_of_its_own():
    assert parse_arguments([]).url == "http://127.0.0.1:8000"
    assert parse_arguments(["--port-base", "31000"]).url == "http://127.0.0.1:31000"


def test_begin_is_a_time_of_day_or_a_second_of_sumos_clock():
    assert clock_time("7:30") == 27_000
    assert clock_time("57600") == 57_600


@pytest.mark.parametrize(
    "options",
    [
        ["--begin", "25:00"],
        ["--begin", "x"],
        ["--seconds", "7"],
        ["--sumocfg", "city.sumocfg"],
        ["--seconds", "600", "--network", "city.json"],
    ],
)
def test_impossible_options_are_refused(options, capsys):
    with pytest.raises(SystemExit):
        parse_arguments(options)
    assert options[0] in capsys.readouterr().err


def test_a_network_file_that_is_not_there_is_reported_before_any_call(capsys):
    pytest.importorskip("libsumo", reason="SUMO is not installed")
    assert main(["--network", "nowhere.json", "--sumocfg", "city.sumocfg"]) == 1
    assert "nowhere.json: cannot be read" in capsys.readouterr().out
