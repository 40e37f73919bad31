"""Scenarios of the shipped network: a stretch of a day of its drawn demand, under its rules."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from lab.net.net import load_net
from lab.sim.daily_demand import HOUR_S, DailyDemand, DayProfile, read_demand
from lab.sim.scenario import Scenario
from models.networks.shipped import DEMAND_FILE, NET_FILE, SHIPPED_FILE

YELLOW_S, MIN_GREEN_S = 3, 5
MORNING_RUSH_S = 15 * HOUR_S // 2
BREAKDOWN_S = (20 * 60, 40 * 60)


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


def shipped_demand(
    begin_s: int,
    duration_s: int = HOUR_S,
    scale: float = 1.0,
    profile: DayProfile | None = None,
    unusual: int | None = None,
) -> DailyDemand:
    """Return the demand of a stretch of a day; see :class:`DailyDemand`."""
    end_s = begin_s + duration_s
    return DailyDemand(NET_FILE, DEMAND_FILE, begin_s, end_s, scale, profile, unusual)


def steady_profile(second_of_day: float) -> DayProfile:
    """Return a day of full demand in the directions of one time."""
    _, evening = read_demand(DEMAND_FILE).profile.at(second_of_day)
    return DayProfile((1.0,) * 24, (evening,) * 24)


def shipped_scenario(
    demand: DailyDemand, breakdowns: Iterable[Breakdown] = (), elements: tuple[str, ...] = ()
) -> Scenario:
    """Return the scenario of a demand.

    Args:
        breakdowns: vehicles that stop and close a lane, on top of the demand.
        elements: further elements of a SUMO additional file, in XML.
    """
    return Scenario(
        SHIPPED_FILE,
        NET_FILE,
        demand,
        demand.begin_s,
        demand.end_s,
        yellow_s=YELLOW_S,
        min_green_s=MIN_GREEN_S,
        elements=(*elements, *_breakdown_elements(breakdowns)),
    )


def _breakdown_elements(breakdowns: Iterable[Breakdown]) -> Iterator[str]:
    """Yield the vehicles as elements of a SUMO additional file, in XML."""
    net = load_net(NET_FILE)
    for number, each in enumerate(sorted(breakdowns, key=lambda each: each.depart_s)):
        length_m = net.edge_lanes[each.edge][0].length_m
        vehicle = ET.Element("vehicle", id=f"breakdown{number}", depart=f"{each.depart_s}")
        ways_there = (net.route(entry, each.edge) for entry in net.entries)
        ways_on = (net.route(each.edge, end) for end in net.exits)
        there, on = (min(filter(None, ways), key=len) for ways in (ways_there, ways_on))
        ET.SubElement(vehicle, "route", edges=" ".join(there + on[1:]))
        ET.SubElement(
            vehicle,
            "stop",
            lane=f"{each.edge}_{each.lane}",
            endPos=f"{each.position * length_m:.1f}",
            duration=f"{each.duration_s}",
        )
        yield ET.tostring(vehicle, encoding="unicode")


def draw_shipped_breakdown(
    rng: np.random.Generator, depart_s: tuple[int, int], duration_s: tuple[int, int]
) -> Breakdown:
    """Draw a place with a lane to pass on, and a departure and duration from half-open ranges."""
    places = read_demand(DEMAND_FILE).closed_lanes_on
    edge = places[rng.integers(len(places))]
    return Breakdown(
        edge=edge,
        lane=int(rng.integers(len(load_net(NET_FILE).edge_lanes[edge]))),
        position=float(rng.uniform(0.3, 0.8)),
        depart_s=int(rng.integers(*depart_s)),
        duration_s=int(rng.integers(*duration_s)),
    )


def with_breakdown(demand: DailyDemand, rng: np.random.Generator) -> Scenario:
    """Return the scenario of a demand with a lane that is closed from its first 15 minutes on."""
    begin_s = demand.begin_s
    depart_s = begin_s + 300, begin_s + 900
    return shipped_scenario(demand, [draw_shipped_breakdown(rng, depart_s, BREAKDOWN_S)])
