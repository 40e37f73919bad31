"""Locust is told what the run was told, and leaves to the scenario what it was not."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from load_tests.run.command import SCENARIOS, Load, described

URL = "http://127.0.0.1:23000"


def options(load: Load, *, page: bool = False) -> dict[str, str]:
    """Return the options that have a value, of the command for records."""
    command = load.command("records", page=page)
    return {a: b for a, b in pairwise(command) if a.startswith("-")}


def test_a_scenario_decides_what_nobody_has_said():
    told = options(Load(URL, Path("/reports")))
    assert {"--users", "--run-time", "--processes", "--master"}.isdisjoint(told)
    assert told["-f"] == str(SCENARIOS["records"])
    assert (told["--host"], told["--csv"], told["--html"]) == (
        URL,
        "/reports/records",
        "/reports/records.html",
    )


def test_users_and_length_are_passed_on():
    told = options(Load(URL, Path("/reports"), users=7, minutes=0.25))
    assert (told["--users"], told["--run-time"]) == ("7", "15s")


def test_a_crowd_is_as_large_as_was_said_or_as_the_scenario_has_it():
    assert Load(URL, Path("/reports"), connections=1800).environment == {"LOAD_CONNECTIONS": "1800"}
    assert Load(URL, Path("/reports")).environment == {}


def test_workers_of_this_machine_are_reached_from_nowhere_else():
    told = options(Load(URL, Path("/reports"), workers=3))
    assert (told["--processes"], told["--master-bind-host"]) == ("3", "127.0.0.1")


def test_workers_of_other_machines_are_waited_for_and_not_for_ever():
    load = Load(URL, Path("/reports"), remote_workers=4)
    assert "--master" in load.command("records")
    assert options(load)["--expect-workers"] == "4"
    assert float(options(load)["--expect-workers-max-wait"]) < 600


def test_a_page_is_for_this_machine_and_takes_the_place_of_reports():
    load = Load(URL, Path("/reports"))
    page, headless = load.command("records", page=True), load.command("records")
    assert options(load, page=True)["--web-host"] == "127.0.0.1"
    assert {"--headless", "--csv", "--html"}.isdisjoint(page)
    assert {"--headless", "--csv", "--html"} < set(headless)


def test_every_scenario_says_in_a_line_what_it_is():
    lines = described().splitlines()
    assert [line.split()[0] for line in lines] == list(SCENARIOS)
    assert all(len(line.split()) > 5 for line in lines)
