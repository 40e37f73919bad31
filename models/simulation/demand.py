"""Traffic demand: who sets out when, from where, to where, on a day with two rush hours."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

import numpy as np

from models.simulation.road_network import RoadNetwork

HOUR_S = 3600
DAY_S = 24 * HOUR_S
SLOT_S = 300  # the rate is constant within a slot

TRUCK_SHARE = 0.05
STRANGE_TURNS, STRANGE_ENTRIES = 0.7, 0.4  # of traffic that no training has seen
VEHICLE_TYPES = (
    '<vType id="car" vClass="passenger"/>',
    '<vType id="truck" vClass="truck" length="9" accel="1.2" maxSpeed="25"/>',
)


class Flow(NamedTuple):
    """Mean departures per hour at full demand between two boundary edges, morning and evening."""

    start: str
    end: str
    morning: float
    evening: float


@dataclass(frozen=True)
class DayProfile:
    """How demand changes over a day.

    Attributes:
        level: share of the full demand at each full hour (24 values), interpolated in between.
        evening_share: how far the flows have turned from morning to evening at each full hour.
    """

    level: tuple[float, ...]
    evening_share: tuple[float, ...]

    def at(self, second_of_day: float) -> tuple[float, float]:
        """Return the level and the evening share at a time of day."""
        hour = second_of_day % DAY_S / HOUR_S
        hours = range(25)
        return (
            float(np.interp(hour, hours, (*self.level, self.level[0]))),
            float(np.interp(hour, hours, (*self.evening_share, self.evening_share[0]))),
        )


# fmt: off
WEEKDAY = DayProfile(
    level=(0.08, 0.05, 0.04, 0.04, 0.08, 0.25, 0.60, 0.95, 1.00, 0.70, 0.55, 0.55,
           0.60, 0.60, 0.60, 0.70, 0.90, 1.00, 0.95, 0.65, 0.45, 0.35, 0.25, 0.15),
    evening_share=(0.5, 0.4, 0.3, 0.2, 0.1, 0.0, 0.0, 0.0, 0.0, 0.1, 0.3, 0.4,
                   0.5, 0.6, 0.7, 0.9, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5),
)
# fmt: on

# Vehicles per hour that enter, (morning, evening), and weights by which they choose where to leave.
ENTERING: Mapping[str, tuple[float, float]] = {
    "west_to_station": (1150, 800),
    "east_to_park": (800, 1150),
    "north_to_market": (650, 500),
    "south_to_center": (500, 650),
    "station_south_to_station": (230, 170),
    "mill_south_to_mill": (200, 140),
    "park_north_to_park": (220, 260),
    "market_east_to_market": (220, 170),
}
LEAVING: Mapping[str, tuple[float, float]] = {
    "station_to_west": (8, 11),
    "park_to_east": (11, 8),
    "market_to_north": (4, 5),
    "center_to_south": (5, 4),
    "station_to_station_north": (1, 1.2),
    "mill_to_mill_south": (1, 1.3),
    "park_to_park_south": (1.5, 1.2),
    "market_to_market_east": (1, 1.3),
}
# Through traffic prefers the far end of its own street.
STRAIGHT_ON = {
    ("west_to_station", "park_to_east"): 2.5,
    ("east_to_park", "station_to_west"): 2.5,
    ("north_to_market", "center_to_south"): 5.0,
    ("south_to_center", "market_to_north"): 5.0,
}


class Trip(NamedTuple):
    """One vehicle: departure in seconds of the day, vehicle type and route."""

    depart_s: float
    vehicle_type: str
    route: tuple[str, ...]


def make_flows(network: RoadNetwork) -> tuple[Flow, ...]:
    """Distribute what enters over the exits in reach, never back to where it came from."""
    flows = []
    for start, entering in ENTERING.items():
        origin = start.split("_to_")[0]
        ends = [
            end
            for end in LEAVING
            if not end.endswith(f"_to_{origin}") and network.route(start, end)
        ]
        pull = np.array(
            [np.multiply(LEAVING[end], STRAIGHT_ON.get((start, end), 1.0)) for end in ends]
        )
        rates = entering * pull / pull.sum(axis=0)
        flows += [
            Flow(start, end, float(morning), float(evening))
            for end, (morning, evening) in zip(ends, rates, strict=True)
        ]
    return tuple(flows)


def make_strange(flows: tuple[Flow, ...], seed: int) -> tuple[Flow, ...]:
    """Return flows with other turning shares, and up to 40 % more or less of each entry.

    Each flow's share of its entry is multiplied by exp(N(0, 0.7)); as many vehicles enter in all.
    """
    rng = np.random.default_rng((seed, 7))
    starts = list(dict.fromkeys(flow.start for flow in flows))
    entering = np.array([[f.morning, f.evening] for f in flows])
    turns = entering * np.exp(rng.normal(0, STRANGE_TURNS, (len(flows), 1)))
    entry = rng.uniform(1 - STRANGE_ENTRIES, 1 + STRANGE_ENTRIES, len(starts))
    for number, start in enumerate(starts):
        of_start = [flow.start == start for flow in flows]
        total = entering[of_start].sum(axis=0)
        turns[of_start] *= entry[number] * total / turns[of_start].sum(axis=0)
    turns *= entering.sum(axis=0) / turns.sum(axis=0)
    return tuple(
        Flow(flow.start, flow.end, float(morning), float(evening))
        for flow, (morning, evening) in zip(flows, turns, strict=True)
    )


def expected_rate(flow: Flow, second_of_day: float, profile: DayProfile = WEEKDAY) -> float:
    """Return the mean departures per hour of a flow at a time of day."""
    level, evening = profile.at(second_of_day)
    return level * ((1 - evening) * flow.morning + evening * flow.evening)


def make_demand(
    network: RoadNetwork,
    seed: int,
    begin_s: int,
    end_s: int,
    scale: float = 1.0,
    profile: DayProfile = WEEKDAY,
    strange: int | None = None,
) -> list[Trip]:
    """Draw the trips that set out in [begin_s, end_s), ordered by departure.

    Args:
        strange: draws other shares of who goes where, see :func:`make_strange`.

    Departures of each flow are a Poisson process. Each slot of the day has random numbers of
    its own, so one seed gives the same trips for a slot whatever the window around it.
    """
    flows = make_flows(network)
    if strange is not None:
        flows = make_strange(flows, strange)
    routes = [network.route(flow.start, flow.end) for flow in flows]
    trips: list[Trip] = []
    for slot in range(begin_s // SLOT_S, -(-end_s // SLOT_S)):
        rng = np.random.default_rng((seed, slot))
        middle = (slot + 0.5) * SLOT_S
        for flow, route in zip(flows, routes, strict=True):
            mean = scale * expected_rate(flow, middle, profile) * SLOT_S / HOUR_S
            number = rng.poisson(mean)
            departures = (slot + rng.random(number)) * SLOT_S
            is_truck = rng.random(number) < TRUCK_SHARE
            trips += [
                Trip(round(float(depart), 2), "truck" if truck else "car", route)
                for depart, truck in zip(departures, is_truck, strict=True)
                if begin_s <= depart < end_s
            ]
    return sorted(trips)


def write_routes(trips: Iterable[Trip], path: str | os.PathLike[str]) -> None:
    """Write trips as a SUMO route file."""
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in _route_lines(trips))


def _route_lines(trips: Iterable[Trip]) -> Iterator[str]:
    yield "<routes>"
    yield from VEHICLE_TYPES
    for number, trip in enumerate(trips):
        yield (
            f'<vehicle id="{number}" type="{trip.vehicle_type}" depart="{trip.depart_s:.2f}"'
            ' departLane="best" departSpeed="max">'
            f"<route edges={quoteattr(' '.join(trip.route))}/></vehicle>"
        )
    yield "</routes>"
