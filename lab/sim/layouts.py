"""Layouts of detectors, to measure what a controller loses by having only some."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from lab.net.net import SumoLane, SumoNet
from lab.sim.scenario import InvalidScenarioError, Scenario
from models.networks.form import Detector, JunctionEntry, NetworkFile

LAYOUTS = "lanes", "stop-line", "advance", "approaches"
FILE = "file"  # the detectors that the network file declares
STOP_LINE_M, ADVANCE_M = 1.0, 50.0  # from the stop line
LOOP_M = 2.0  # about six feet, the usual length of a loop


def lay_out(network: NetworkFile, net: SumoNet, layout: str) -> NetworkFile:
    """Return the network with detectors at all of its lanes.

    Args:
        layout: both kinds on each lane (lanes), one of them (stop-line, advance), or one of both
            kinds across all lanes of an approach (approaches).

    Raises:
        InvalidScenarioError: the net lacks a lane.
    """
    kinds: list[tuple[Literal["stop_line", "advance"], float]] = []
    if layout != "advance":
        kinds.append(("stop_line", STOP_LINE_M))
    if layout != "stop-line":
        kinds.append(("advance", ADVANCE_M))

    def detectors(junction: JunctionEntry) -> Iterable[Detector]:
        groups: dict[str, list[SumoLane]] = {}
        for lane in junction.lanes:
            known = known_lane(net, lane.id)
            groups.setdefault(known.edge if layout == "approaches" else lane.id, []).append(known)
        for lanes in groups.values():
            longest_m = min(lane.length_m for lane in lanes) - LOOP_M
            for kind, at_m in kinds:
                distance_m = int(10 * min(at_m, longest_m)) / 10
                if distance_m > (STOP_LINE_M + LOOP_M if kind == "advance" else 0):
                    yield Detector(
                        id=f"{lanes[0].id}.{kind}",
                        kind=kind,
                        lanes=tuple(lane.id for lane in lanes),
                        distance_m=distance_m,
                        length_m=LOOP_M,
                    )

    junctions = tuple(
        each.model_copy(update={"detectors": tuple(detectors(each))}) for each in network.junctions
    )
    return network.model_copy(update={"junctions": junctions})


def with_detectors(scenario: Scenario, layout: str) -> Scenario:
    """Return the scenario with observations and queues that are estimated from detectors.

    Args:
        layout: one of LAYOUTS, or FILE.

    Raises:
        InvalidScenarioError: there are none, or they are not on their lanes.
    """
    net = scenario.sumo_net
    network = scenario.network if layout == FILE else lay_out(scenario.network, net, layout)
    if not any(junction.detectors for junction in network.junctions):
        raise InvalidScenarioError(f"The network file of {network.name} declares no detectors.")
    for junction in network.junctions:
        if junction.links is None:
            raise InvalidScenarioError(f"Detectors of {junction.id} need its links in the file.")
        for detector in junction.detectors:
            for lane in detector.lanes:
                _check_place(detector, net, lane)
    return replace(scenario, network=network, detectors=True)


def known_lane(net: SumoNet, lane: str) -> SumoLane:
    """Return a lane of the net.

    Raises:
        InvalidScenarioError: the net lacks it.
    """
    if lane not in net.lanes:
        raise InvalidScenarioError(f"The net has no lane {lane}, which the network file has.")
    return net.lanes[lane]


def _check_place(detector: Detector, net: SumoNet, lane: str) -> None:
    length_m = known_lane(net, lane).length_m
    if detector.distance_m + detector.length_m > length_m:
        raise InvalidScenarioError(
            f"Detector {detector.id}, {detector.distance_m} m from the stop line and"
            f" {detector.length_m} m long, is not on lane {lane}, which has {length_m} m."
        )
