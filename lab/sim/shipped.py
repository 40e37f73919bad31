"""Scenarios of the shipped network: a stretch of a day of its drawn demand, under its rules."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lab.net.net import load_net
from lab.sim.breakdown import Breakdown, breakdown_elements
from lab.sim.daily_demand import HOUR_S, DailyDemand, DayProfile, read_demand
from lab.sim.scenario import Scenario
from models.networks.shipped import DEMAND_FILE, NET_FILE, SHIPPED

DECISION_S, YELLOW_S, MIN_GREEN_S = 5, 3, 5
MORNING_RUSH_S = 15 * HOUR_S // 2
BREAKDOWN_S = (20 * 60, 40 * 60)


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
    if SHIPPED.file is None:
        raise ValueError("the shipped network was read without its file")
    return Scenario(
        SHIPPED.file,
        NET_FILE,
        demand,
        demand.begin_s,
        demand.end_s,
        DECISION_S,
        YELLOW_S,
        min_green_s=MIN_GREEN_S,
        elements=(*elements, *breakdown_elements(load_net(NET_FILE), breakdowns)),
    )


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
