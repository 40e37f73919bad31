"""Breakdowns: a vehicle that stops on a lane and closes it to the others for a while."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass

import numpy as np

from models.simulation.road_network import RoadNetwork

# Edges with several lanes, and how many; on others a breakdown would close the whole street.
WIDE = (
    *(("west_to_station", 2), ("station_to_mill", 2), ("mill_to_center", 4)),
    *(("center_to_park", 2), ("park_to_east", 2), ("east_to_park", 2), ("park_to_center", 4)),
    *(("center_to_mill", 2), ("mill_to_station", 2), ("station_to_west", 2)),
    *(("north_to_market", 2), ("market_to_center", 3), ("center_to_south", 2)),
    *(("south_to_center", 3), ("center_to_market", 2), ("market_to_north", 2)),
)


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


def draw_breakdown(
    rng: np.random.Generator, depart_s: tuple[int, int], duration_s: tuple[int, int]
) -> Breakdown:
    """Draw a place with a lane to pass on, and a departure and duration from half-open ranges."""
    edge, lanes = WIDE[rng.integers(len(WIDE))]
    return Breakdown(
        edge=edge,
        lane=int(rng.integers(lanes)),
        position=float(rng.uniform(0.3, 0.8)),
        depart_s=int(rng.integers(*depart_s)),
        duration_s=int(rng.integers(*duration_s)),
    )


def breakdown_vehicle(breakdown: Breakdown, number: int, network: RoadNetwork) -> ET.Element:
    """Return the vehicle as an element of SUMO's route and additional files."""
    vehicle = ET.Element("vehicle", id=f"breakdown{number}", depart=f"{breakdown.depart_s}")
    ET.SubElement(vehicle, "route", edges=" ".join(_route_over(breakdown, network)))
    ET.SubElement(
        vehicle,
        "stop",
        lane=f"{breakdown.edge}_{breakdown.lane}",
        endPos=f"{breakdown.position * network.edge_lengths_m[breakdown.edge]:.1f}",
        duration=f"{breakdown.duration_s}",
    )
    return vehicle


def _route_over(breakdown: Breakdown, network: RoadNetwork) -> tuple[str, ...]:
    """Find a way from some entry over the edge of the breakdown to some exit."""
    there = min(
        (route for entry in network.entries if (route := network.route(entry, breakdown.edge))),
        key=len,
    )
    onward = min(
        (route for end in network.exits if (route := network.route(breakdown.edge, end))), key=len
    )
    return there + onward[1:]
