"""Locust gets the options of the run, and leaves the others to the scenario."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from load_tests.scenarios.session import LOCUSTFILE, LoadOptions

URL = "http://127.0.0.1:23000"


def options(load: LoadOptions, *, page: bool = False) -> dict[str, str]:
    """Return the options that have a value, of the command for records."""
    command = load.command("records", page=page)
    return {a: b for a, b in pairwise(command) if a.startswith("-")}


def test_a_scenario_decides_what_the_run_does_not():
    given = options(LoadOptions(URL, Path("/reports")))
    assert {"--users", "--run-time", "--processes", "--master"}.isdisjoint(given)
    assert given["-f"] == str(LOCUSTFILE)
    assert (given["--host"], given["--csv"], given["--html"]) == (
        URL,
        "/reports/records",
        "/reports/records.html",
    )


def test_users_and_length_are_passed_on():
    given = options(LoadOptions(URL, Path("/reports"), users=7, minutes=0.25))
    assert (given["--users"], given["--run-time"]) == ("7", "15s")


def test_scenario_and_connections_are_in_the_environment():
    load = LoadOptions(URL, Path("/reports"), connections=1800)
    assert load.environment("overload") == {
        "LOAD_SCENARIO": "overload",
        "LOAD_CONNECTIONS": "1800",
    }
    assert LoadOptions(URL, Path("/reports")).environment("soak") == {"LOAD_SCENARIO": "soak"}


def test_workers_of_this_machine_are_reached_from_nowhere_else():
    given = options(LoadOptions(URL, Path("/reports"), workers=3))
    assert (given["--processes"], given["--master-bind-host"]) == ("3", "127.0.0.1")


def test_workers_of_other_machines_are_waited_for_but_not_indefinitely():
    load = LoadOptions(URL, Path("/reports"), remote_workers=4)
    assert "--master" in load.command("records")
    assert options(load)["--expect-workers"] == "4"
    assert float(options(load)["--expect-workers-max-wait"]) < 600


def test_a_page_is_for_this_machine_and_takes_the_place_of_reports():
    load = LoadOptions(URL, Path("/reports"))
    page, headless = load.command("records", page=True), load.command("records")
    assert options(load, page=True)["--web-host"] == "127.0.0.1"
    assert {"--headless", "--csv", "--html"}.isdisjoint(page)
    assert {"--headless", "--csv", "--html"} < set(headless)
