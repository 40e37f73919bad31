"""Breakdowns: a vehicle that stops on a lane and closes it to the others for a while."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass

from lab.net.net import SumoNet


@dataclass(frozen=True)
class Breakdown:
    """A vehicle that stops on a lane and closes it to the others.

    Attributes:
        edge, lane: where; the lane is its number from the kerb.
        position: share of the edge's length.
        depart_s: when the vehicle sets out, in seconds of the day.
        duration_s: how long it stands.
    """

    edge: str
    lane: int
    position: float
    depart_s: int
    duration_s: int


def breakdown_elements(net: SumoNet, breakdowns: Iterable[Breakdown]) -> tuple[str, ...]:
    """Return the vehicles as elements of a SUMO additional file, in XML."""
    ordered = sorted(breakdowns, key=lambda each: each.depart_s)
    return tuple(_element(net, each, number) for number, each in enumerate(ordered))


def _element(net: SumoNet, breakdown: Breakdown, number: int) -> str:
    length_m = net.edge_lanes[breakdown.edge][0].length_m
    vehicle = ET.Element("vehicle", id=f"breakdown{number}", depart=f"{breakdown.depart_s}")
    ET.SubElement(vehicle, "route", edges=" ".join(_route_over(net, breakdown.edge)))
    ET.SubElement(
        vehicle,
        "stop",
        lane=f"{breakdown.edge}_{breakdown.lane}",
        endPos=f"{breakdown.position * length_m:.1f}",
        duration=f"{breakdown.duration_s}",
    )
    return ET.tostring(vehicle, encoding="unicode")


def _route_over(net: SumoNet, edge: str) -> tuple[str, ...]:
    """Find the shortest route from an entry over an edge to an exit."""
    there = min((way for entry in net.entries if (way := net.route(entry, edge))), key=len)
    onward = min((way for end in net.exits if (way := net.route(edge, end))), key=len)
    return there + onward[1:]
