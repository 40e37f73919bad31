"""The built network as it lies: what a map of it is drawn from, read without SUMO."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from models.maps.phases_in_words import ways_in_words
from models.shipped import NETWORK_FILE
from models.shipped.layout import NODES

Point = tuple[float, float]


@dataclass(frozen=True)
class Lane:
    """A lane in the direction of travel."""

    id: str
    shape: tuple[Point, ...]


@dataclass(frozen=True)
class Road:
    """A one-way carriageway from one node to another; points are in metres, y grows northwards."""

    id: str
    start: Point
    end: Point
    start_name: str
    end_name: str
    lanes: tuple[Lane, ...]


@dataclass(frozen=True)
class Approach:
    """An incoming lane of a junction.

    Attributes:
        lane: its id.
        greens: a letter for each green phase: ``G`` where any way out of the lane is green, else
            ``r``.
    """

    lane: str
    greens: str


@dataclass(frozen=True)
class SignalisedJunction:
    """A junction with signals.

    Attributes:
        name: what people call it.
        approaches: in the order of the observation.
        phases: where each green phase lets vehicles go from, in words.
    """

    id: str
    name: str
    place: Point
    approaches: tuple[Approach, ...]
    phases: tuple[str, ...]


@dataclass(frozen=True)
class RoadMap:
    """What a map is drawn from.

    Attributes:
        as_they_lie: whether roads may bend; otherwise each is a straight line between two nodes.
        left_out: how many junctions are not there, as they are too many.
    """

    roads: tuple[Road, ...]
    junctions: tuple[SignalisedJunction, ...]
    as_they_lie: bool = False
    left_out: int = 0


def read_road_map(path: str | os.PathLike[str] = NETWORK_FILE) -> RoadMap:
    """Read a network that netconvert built."""
    root = ET.parse(path).getroot()
    nodes = {node.attrib["id"]: node for node in root.iterfind("junction")}
    starts = {edge.attrib["id"]: edge.get("from", "") for edge in root.iterfind("edge")}
    return RoadMap(
        roads=tuple(
            Road(
                edge.attrib["id"],
                _place(nodes[edge.attrib["from"]]),
                _place(nodes[edge.attrib["to"]]),
                _name(edge.attrib["from"]),
                _name(edge.attrib["to"]),
                tuple(Lane(lane.attrib["id"], _points(lane)) for lane in edge.iterfind("lane")),
            )
            for edge in root.iterfind("edge")
            if edge.get("function") != "internal"
        ),
        junctions=tuple(
            SignalisedJunction(
                junction,
                _name(junction),
                _place(nodes[junction]),
                _approaches(links, phases),
                tuple(
                    ways_in_words(
                        (_name(starts[link["from"]]).lower(), link["dir"], letter in "Gg")
                        for link, letter in zip(links, phase, strict=True)
                    )
                    for phase in phases
                ),
            )
            for junction, links, phases in _signals(root)
        ),
    )


def _signals(root: ET.Element) -> Iterator[tuple[str, list[dict[str, str]], list[str]]]:
    """Yield each junction with its links, in their order, and its green phases, a letter a link."""
    links: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
    controlled = [each.attrib for each in root.iterfind("connection") if "tl" in each.attrib]
    for link in sorted(controlled, key=lambda each: int(each["linkIndex"])):
        links[link["tl"]].append(link)
    for logic in root.iterfind("tlLogic"):
        states = [phase.attrib["state"] for phase in logic.iterfind("phase")]
        yield logic.attrib["id"], links[logic.attrib["id"]], [s for s in states if "y" not in s]


def _approaches(links: list[dict[str, str]], phases: list[str]) -> tuple[Approach, ...]:
    lanes: dict[str, list[int]] = {}
    for index, link in enumerate(links):
        lanes.setdefault(f"{link['from']}_{link['fromLane']}", []).append(index)
    return tuple(
        Approach(lane, "".join(_letter(phase[index] for index in indices) for phase in phases))
        for lane, indices in lanes.items()
    )


def _letter(signals: Iterable[str]) -> str:
    return "G" if any(signal in "Gg" for signal in signals) else "r"


def _name(node: str) -> str:
    names = {each.id: name for name, each in NODES.items()}
    return names.get(node, node).replace("_", " ").capitalize()


def _place(node: ET.Element) -> Point:
    return float(node.attrib["x"]), float(node.attrib["y"])


def _points(lane: ET.Element) -> tuple[Point, ...]:
    pairs = (point.split(",") for point in lane.attrib["shape"].split())
    return tuple((float(x), float(y)) for x, y, *_ in pairs)
