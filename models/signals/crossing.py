"""The ways across each junction as they lie in the built network: what a clearance time needs."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass

from models.shipped import NETWORK_FILE

Point = tuple[float, float]


@dataclass(frozen=True)
class Way:
    """A signalised link across a junction, from its stop line to the lane that it leads to.

    Attributes:
        index: of the link in the signal's states.
        lane: that it comes from.
        edge: that it leads to.
        turns: whether it is driven slowly: to the left, to the right, back.
        shape: in metres; the first point is at the stop line.
    """

    index: int
    lane: str
    edge: str
    turns: bool
    shape: tuple[Point, ...]


@dataclass(frozen=True)
class Crossing:
    """A signalised junction: its ways in the order of the links, and the states of its phases."""

    ways: tuple[Way, ...]
    phases: tuple[str, ...]


def read_crossings(path: str | os.PathLike[str] = NETWORK_FILE) -> Mapping[str, Crossing]:
    """Read the signalised junctions of a network that netconvert built."""
    root = ET.parse(path).getroot()
    shapes = {
        lane.attrib["id"]: _points(lane.attrib["shape"])
        for lane in root.iterfind("edge[@function='internal']/lane")
    }
    connections = [each.attrib for each in root.iterfind("connection")]
    onwards = {
        f"{each['from']}_{each['fromLane']}": each["via"]
        for each in connections
        if each["from"].startswith(":") and "via" in each
    }
    ways: dict[str, list[Way]] = {}
    for each in connections:
        if "tl" not in each:
            continue
        shape: list[Point] = []
        inner: str | None = each["via"]
        while inner is not None:
            shape += shapes[inner]
            inner = onwards.get(inner)
        lane = f"{each['from']}_{each['fromLane']}"
        way = Way(int(each["linkIndex"]), lane, each["to"], each["dir"] != "s", tuple(shape))
        ways.setdefault(each["tl"], []).append(way)
    states = {
        program.attrib["id"]: [phase.attrib["state"] for phase in program.iterfind("phase")]
        for program in root.iterfind("tlLogic")
    }
    return {
        junction: Crossing(
            tuple(sorted(links, key=lambda way: way.index)),
            tuple(state for state in states[junction] if "y" not in state),
        )
        for junction, links in ways.items()
    }


def _points(text: str) -> list[Point]:
    pairs = (point.split(",") for point in text.split())
    return [(float(x), float(y)) for x, y, *_ in pairs]
