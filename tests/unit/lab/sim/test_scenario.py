"""Scenarios from a configuration of SUMO, and those that cannot be."""

from dataclasses import replace

import pytest

from lab.net.importing import import_network
from lab.sim.configuration import read_sumocfg
from lab.sim.scenario import InvalidScenarioError, RouteFiles, Scenario
from models.networks.file import InvalidNetworkError
from models.networks.shipped import NET_FILE

CONFIG = (
    "<configuration><input><net-file value='a.net.xml'/><route-files value='b.rou.xml,c.rou.xml'/>"
    "</input><time><begin value='3600.0'/><end value='7200'/></time></configuration>"
)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("<configuration/>", "does not say its net-file"),
        (
            CONFIG.replace("<route-files value='b.rou.xml,c.rou.xml'/>", ""),
            "has neither route-files",
        ),
        (CONFIG.replace("7200", "7 pm"), "'7 pm' is not a time; write seconds or H:MM:SS"),
        ("no XML", "is not a SUMO configuration"),
    ],
)
def test_a_configuration_that_lacks_something_is_refused(tmp_path, text, sentence):
    path = tmp_path / "town.sumocfg"
    path.write_text(text)
    with pytest.raises(InvalidNetworkError, match=sentence):
        read_sumocfg(path)


def test_short_names_and_traffic_of_additional_files_are_read_without_an_end(tmp_path):
    path = tmp_path / "town.sumocfg"
    path.write_text(
        "<configuration><n v='a.net.xml'/><a value='b.add.xml, c.add.xml'/><b v='1:00:00'/>"
        "</configuration>"
    )
    with pytest.raises(InvalidScenarioError, match="does not say its end; add --end"):
        read_sumocfg(path)
    files = read_sumocfg(path, end_s=7200)
    assert (files.net, files.routes) == (tmp_path / "a.net.xml", ())
    assert files.additional == (tmp_path / "b.add.xml", tmp_path / "c.add.xml")
    assert (files.begin_s, files.end_s) == (3600, 7200)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"end_s": 0}, "The end, 0 s, is not after 0 s"),
        ({"decision_s": 0}, "Decisions take a second at least"),
        ({"min_green_s": -1}, "no time is negative"),
        ({"all_red_s": 7}, "must be shorter than a decision"),
        ({"bus_weight": -1}, "A bus counts as 0 to 1000 vehicles"),
        (
            {"demand": RouteFiles((NET_FILE.with_name("none.rou.xml"),))},
            r"none\.rou\.xml is not there",
        ),
    ],
)
def test_a_scenario_that_cannot_be_is_refused(changed, sentence):
    network, _ = import_network(NET_FILE)
    scenario = Scenario(network, NET_FILE, RouteFiles((NET_FILE,)), 0, 3600)
    with pytest.raises(InvalidScenarioError, match=sentence):
        replace(scenario, **changed)


def test_behind_the_safety_layer_a_change_may_take_longer_than_a_decision():
    network, _ = import_network(NET_FILE)
    scenario = Scenario(network, NET_FILE, RouteFiles((NET_FILE,)), 0, 3600, guarded=True)
    assert replace(scenario, decision_s=2).n_decisions == 1800
