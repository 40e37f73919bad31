"""What the built network says about its junctions and routes, read without SUMO."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from models.networks.shipped import NET_FILE

SPEED_LIMIT = 13.9  # m/s, 50 km/h
VEHICLE_SPACE_M = 7.5  # a standing passenger car and the gap before it, SUMO's defaults


@dataclass(frozen=True)
class Lane:
    """An incoming lane of a junction; its capacity is in vehicles that can queue on it."""

    id: str
    edge: str
    length_m: float

    @property
    def capacity(self) -> float:
        return self.length_m / VEHICLE_SPACE_M


@dataclass(frozen=True)
class RoadBeyond:
    """An edge behind the stop line: across the junction, or from there out of the network."""

    edge: str
    speed_limit: float  # m/s


@dataclass(frozen=True)
class Approach:
    """A movement at a junction: from one edge to the next, over some lanes."""

    from_edge: str
    to_edge: str
    lanes: tuple[str, ...]
    greens: str  # one signal character per green phase


@dataclass(frozen=True)
class JunctionLayout:
    """A signalised junction as built: green phases, and lanes in the order of the observation."""

    id: str
    phases: tuple[str, ...]
    lanes: tuple[Lane, ...]
    approaches: tuple[Approach, ...]
    beyond: tuple[RoadBeyond, ...]


@dataclass(frozen=True)
class RoadNetwork:
    """Junctions by id, and for each edge the edges that can follow it."""

    junctions: Mapping[str, JunctionLayout]
    successors: Mapping[str, tuple[str, ...]]
    edge_lengths_m: Mapping[str, float]

    @cached_property
    def entries(self) -> tuple[str, ...]:
        """Edges that lead into the network from its boundary."""
        followed = {edge for edges in self.successors.values() for edge in edges}
        return tuple(edge for edge in self.edge_lengths_m if edge not in followed)

    @cached_property
    def exits(self) -> tuple[str, ...]:
        """Edges that lead out of the network."""
        return tuple(edge for edge in self.edge_lengths_m if edge not in self.successors)

    def route(self, start: str, end: str) -> tuple[str, ...]:
        """Return the way with the fewest edges, both ends included; empty when there is no way."""
        previous: dict[str, str | None] = {start: None}
        queue = deque([start])
        while queue:
            edge = queue.popleft()
            if edge == end:
                route: list[str] = []
                step: str | None = end
                while step is not None:
                    route.insert(0, step)
                    step = previous[step]
                return tuple(route)
            for following in self.successors.get(edge, ()):
                if following not in previous:
                    previous[following] = edge
                    queue.append(following)
        return ()


def read_network(path: str | os.PathLike[str] = NET_FILE) -> RoadNetwork:
    """Read a network that netconvert built.

    The incoming lanes of a junction are ordered by their first controlled connection.
    """
    root = ET.parse(path).getroot()
    edges = [edge for edge in root.iterfind("edge") if edge.get("function") != "internal"]
    lanes = {
        lane.attrib["id"]: Lane(lane.attrib["id"], edge.attrib["id"], float(lane.attrib["length"]))
        for edge in edges
        for lane in edge.iterfind("lane")
    }
    links = [link.attrib for link in root.iterfind("connection") if "tl" in link.attrib]
    links.sort(key=lambda link: int(link["linkIndex"]))
    successors: dict[str, list[str]] = defaultdict(list)
    for link in links:
        if link["to"] not in successors[link["from"]]:
            successors[link["from"]].append(link["to"])
    limits = {
        edge.attrib["id"]: max(float(lane.attrib["speed"]) for lane in edge.iterfind("lane"))
        for edge in root.iterfind("edge")
    }
    return RoadNetwork(
        junctions={
            logic.attrib["id"]: _read_junction(
                logic,
                [link for link in links if link["tl"] == logic.attrib["id"]],
                lanes,
                {edge: limit for edge, limit in limits.items() if edge not in successors},
            )
            for logic in root.iterfind("tlLogic")
        },
        successors={edge: tuple(following) for edge, following in successors.items()},
        edge_lengths_m={lane.edge: lane.length_m for lane in lanes.values()},
    )


def _read_junction(
    logic: ET.Element,
    links: list[dict[str, str]],
    lanes: Mapping[str, Lane],
    limits_beyond: Mapping[str, float],
) -> JunctionLayout:
    own_ground, followers = f":{logic.attrib['id']}_", {link["to"] for link in links}
    states = [phase.attrib["state"] for phase in logic.iterfind("phase")]
    phases = tuple(state for state in states if "y" not in state)
    incoming = dict.fromkeys(f"{link['from']}_{link['fromLane']}" for link in links)
    movements: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    for link in links:
        movements[link["from"], link["to"]].append(link)
    return JunctionLayout(
        id=logic.attrib["id"],
        phases=phases,
        lanes=tuple(lanes[lane] for lane in incoming),
        approaches=tuple(
            Approach(
                from_edge,
                to_edge,
                tuple(dict.fromkeys(f"{link['from']}_{link['fromLane']}" for link in group)),
                "".join(phase[int(group[0]["linkIndex"])] for phase in phases),
            )
            for (from_edge, to_edge), group in movements.items()
        ),
        beyond=tuple(
            RoadBeyond(edge, limit)
            for edge, limit in limits_beyond.items()
            if edge.startswith(own_ground) or edge in followers
        ),
    )
