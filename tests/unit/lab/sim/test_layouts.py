"""Layouts put detectors on lanes, and detectors that no lane can have are refused."""

from dataclasses import replace

import pytest

from lab.net.net import load_net
from lab.sim.layouts import FILE, lay_out, with_detectors
from lab.sim.scenario import InvalidScenarioError, RouteFiles, Scenario
from models.networks.form import Detector
from models.networks.shipped import NET_FILE, SHIPPED_FILE

NETWORK = SHIPPED_FILE
SCENARIO = Scenario(NETWORK, NET_FILE, RouteFiles(()), 0, 60)


def declared(**changed: object) -> Scenario:
    """Return the scenario with one detector in its network file."""
    first, *others = NETWORK.junctions
    said = {"id": "d1", "kind": "stop_line", "lanes": (first.lanes[0].id,)} | changed
    junction = first.model_copy(update={"detectors": (Detector.model_validate(said),)})
    network = NETWORK.model_copy(update={"junctions": (junction, *others)})
    return replace(SCENARIO, network=network)


@pytest.mark.parametrize(
    ("layout", "kinds", "n_devices"),
    [
        ("lanes", {"stop_line", "advance"}, 28),
        ("stop-line", {"stop_line"}, 14),
        ("advance", {"advance"}, 14),
        ("approaches", {"stop_line", "advance"}, 8),
    ],
)
def test_a_layout_covers_every_lane(layout, kinds, n_devices):
    network = lay_out(SCENARIO.network, load_net(NET_FILE), layout)
    junction = network.junctions[0]
    assert len(junction.detectors) == n_devices
    assert {each.kind for each in junction.detectors} == kinds
    for kind in kinds:
        covered = [lane for each in junction.detectors if each.kind == kind for lane in each.lanes]
        assert sorted(covered) == sorted(lane.id for lane in junction.lanes)
    again = type(junction).model_validate(junction.model_dump())
    assert again.detectors == junction.detectors, "as a network file may declare them"


def test_a_detector_beyond_its_lane_is_refused():
    wrong = declared(kind="advance", distance_m=900)
    with pytest.raises(InvalidScenarioError, match=r"Detector d1, 900.* is not on lane .*, which"):
        with_detectors(wrong, FILE)


def test_a_junction_without_links_is_refused():
    junctions = tuple(each.model_copy(update={"links": None}) for each in NETWORK.junctions)
    network = NETWORK.model_copy(update={"junctions": junctions})
    with pytest.raises(InvalidScenarioError, match="need its links"):
        with_detectors(replace(SCENARIO, network=network), "lanes")
