"""The command line of a city names its files and rules, and says what is missing."""

import argparse
from pathlib import Path

import pytest

from lab.sim.options import add_scenario, scenario_of
from lab.sim.scenario import InvalidScenarioError, Scenario
from models.networks.file import network_as_json
from models.networks.form import NetworkFile
from models.networks.shipped import NET_FILE, NETWORK_FILE
from tests.cities import entry

STATED = entry("pier", 0) | {"phases": [{"state": "Gr"}, {"state": "rG"}]}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    network = NetworkFile.model_validate({"name": "harbour", "junctions": [STATED]})
    (tmp_path / "city.json").write_text(network_as_json(network))
    (tmp_path / "trips.rou.xml").write_text("<routes/>")
    (tmp_path / "city.sumocfg").write_text(
        f'<configuration><net-file value="{NET_FILE}"/><route-files value="trips.rou.xml"/>'
        '<begin value="60"/><end value="600"/></configuration>'
    )
    return tmp_path


def parse(*arguments: object) -> Scenario:
    parser = argparse.ArgumentParser()
    add_scenario(parser)
    return scenario_of(parser.parse_args([str(each) for each in arguments]))


def test_a_configuration_says_net_routes_and_times(files):
    scenario = parse("--network", files / "city.json", "--sumocfg", files / "city.sumocfg")
    assert scenario.network.name == "harbour"
    assert (scenario.net, scenario.demand.files) == (NET_FILE, (files / "trips.rou.xml",))
    assert (scenario.begin_s, scenario.end_s) == (60, 600)
    assert (scenario.decision_s, *scenario.times) == (5, 3, 0, 5)


def test_the_times_are_those_of_the_nets_programs_unless_they_are_given(files):
    net = files / "slow.net.xml"
    steps = ((20, "Gr", 'minDur="8"'), (4, "yr", ""), (2, "rr", ""), (20, "rG", 'minDur="8"'))
    phases = "".join(
        f'<phase duration="{seconds}" state="{state}" {more}/>' for seconds, state, more in steps
    )
    net.write_text(f'<net><tlLogic id="pier">{phases}</tlLogic></net>')
    arguments = "--network", files / "city.json", "--net", net, "--end", 300
    routes = "--routes", files / "trips.rou.xml"
    scenario = parse(*arguments, *routes)
    assert (scenario.decision_s, *scenario.times) == (7, 4, 2, 8)
    assert parse(*arguments, *routes, "--all-red", 0, "--min-green", 3).times == (4, 0, 3)


def test_the_program_is_that_of_the_option_or_of_the_import(files):
    net, two = files / "two.net.xml", (("day", 4), ("night", 6))
    programs = "".join(
        f'<tlLogic id="pier" programID="{name}"><phase duration="20" state="Gr"/>'
        f'<phase duration="{yellow_s}" state="yr"/><phase duration="20" state="rG"/></tlLogic>'
        for name, yellow_s in two
    )
    net.write_text(f"<net>{programs}</net>")
    network = NetworkFile.model_validate({"name": "a", "junctions": [STATED], "program": "day"})
    (files / "day.json").write_text(network_as_json(network))
    more = "--net", net, "--routes", files / "trips.rou.xml", "--end", 300
    plain, imported = ("--network", files / "city.json"), ("--network", files / "day.json")
    assert parse(*plain, *more).yellow_s == 6
    assert parse(*plain, *more, "--program", "day").yellow_s == 4
    assert parse(*imported, *more).yellow_s == 4
    assert parse(*imported, *more).program == "day"
    assert parse(*imported, *more, "--program", "night").yellow_s == 6
    with pytest.raises(InvalidScenarioError, match="has no program dusk; it has day, night"):
        parse(*plain, *more, "--program", "dusk")


def test_options_say_them_instead_and_the_rules_with_them(files):
    scenario = parse(
        *("--network", files / "city.json", "--net", NET_FILE),
        *("--routes", files / "trips.rou.xml", "--end", 300),
        *("--decision", 8, "--yellow", 2, "--all-red", 1, "--min-green", 6),
    )
    assert (scenario.begin_s, scenario.end_s) == (0, 300)
    assert (scenario.decision_s, *scenario.times) == (8, 2, 1, 6)


def test_times_beside_a_configuration_replace_its_own(files):
    arguments = "--network", files / "city.json", "--sumocfg", files / "city.sumocfg"
    assert parse(*arguments, "--begin", 0, "--end", 90).end_s == 90
    assert parse(*arguments, "--begin", 0).begin_s == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Say --sumocfg, or --net, --routes and --end."),
        (["--net", NET_FILE], "Say --sumocfg, or --net, --routes and --end."),
        (["--sumocfg", "here", "--net", NET_FILE], "Say either --sumocfg"),
    ],
)
def test_what_is_missing_or_said_twice_is_told(files, arguments, sentence):
    with pytest.raises(InvalidScenarioError, match=sentence):
        parse("--network", files / "city.json", *arguments)


def test_detectors_are_laid_out_or_those_of_the_network_file(tmp_path):
    (tmp_path / "trips.rou.xml").write_text("<routes/>")
    traffic = "--routes", tmp_path / "trips.rou.xml", "--end", 60
    shipped = "--network", NETWORK_FILE, "--net", NET_FILE, *traffic
    assert not parse(*shipped).detectors
    scenario = parse(*shipped, "--detectors", "stop-line")
    assert scenario.detectors
    kinds = {each.kind for junction in scenario.network.junctions for each in junction.detectors}
    assert kinds == {"stop_line"}
    with pytest.raises(InvalidScenarioError, match="network file of greenwave declares no detect"):
        parse(*shipped, "--detectors", "file")
