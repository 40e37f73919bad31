"""Demand that is drawn: who departs when, from where, to where, on a day with two rush hours.

A demand file has, for the morning and the evening, how many vehicles enter on which edge, and the
weights by which they choose where to leave. The seed draws the vehicles of a run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

import numpy as np
from pydantic import BaseModel, ConfigDict

from lab.net.net import load_net

HOUR_S = 3600
DAY_S = 24 * HOUR_S
SLOT_S = 300  # the rate is constant within a slot

UNUSUAL_TURNS, UNUSUAL_ENTRIES = 0.7, 0.4  # spread of the turning shares, and of the entries
VEHICLE_TYPES = (
    '<vType id="car" vClass="passenger"/>',
    '<vType id="truck" vClass="truck" length="9" accel="1.2" maxSpeed="25"/>',
)


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class BoundaryEdge(_Form):
    """An entry with vehicles per hour at full demand, or an exit with weights."""

    edge: str
    morning: float
    evening: float


class StraightOn(_Form):
    """Through traffic prefers the far end of its own street, by a factor on the exit's weight."""

    start: str
    end: str
    factor: float


class DemandFile(_Form):
    """A network's usual demand.

    Attributes:
        level: share of the full demand at each full hour, interpolated in between.
        evening_share: how far the flows have turned from morning to evening at each full hour.
        closed_lanes_on: edges on which a breakdown may close a lane.
    """

    truck_share: float
    level: tuple[float, ...]
    evening_share: tuple[float, ...]
    entries: tuple[BoundaryEdge, ...]
    exits: tuple[BoundaryEdge, ...]
    straight_on: tuple[StraightOn, ...]
    closed_lanes_on: tuple[str, ...]

    @property
    def profile(self) -> DayProfile:
        return DayProfile(self.level, self.evening_share)


@cache
def read_demand(path: Path) -> DemandFile:
    return DemandFile.model_validate_json(path.read_bytes())


@dataclass(frozen=True)
class DayProfile:
    """How demand changes over a day; the attributes are those of :class:`DemandFile`."""

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


class Flow(NamedTuple):
    """Mean departures per hour at full demand between two boundary edges, morning and evening."""

    start: str
    end: str
    morning: float
    evening: float


class Trip(NamedTuple):
    """One vehicle: departure in seconds of the day, vehicle type and route."""

    depart_s: float
    vehicle_type: str
    route: tuple[str, ...]


@dataclass(frozen=True)
class DailyDemand:
    """The demand of a stretch of a day; each seed draws other vehicles.

    Attributes:
        net, file: SUMO's network, and the demand file.
        scale: factor on all flows; 1 brings rush hours close to the capacity.
        profile: course of the demand over the day; None for the file's.
        unusual: seed of turning shares and entries that differ from the usual ones; None for
            these.
    """

    net: Path
    file: Path
    begin_s: int
    end_s: int
    scale: float = 1.0
    profile: DayProfile | None = None
    unusual: int | None = None

    def __str__(self) -> str:
        return f"the demand of {self.file.name}"

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.file,)

    def route_files(self, seed: int, folder: Path) -> tuple[Path, ...]:
        path = folder / "demand.rou.xml"
        with path.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in _route_lines(self.trips(seed)))
        return (path,)

    def expected(self, second: int) -> tuple[float, ...]:
        """Return the level of the traffic and its evening share."""
        level, evening = self.course.at(second)
        return self.scale * level, evening

    @property
    def course(self) -> DayProfile:
        return self.profile or read_demand(self.file).profile

    @property
    def flows(self) -> tuple[Flow, ...]:
        flows = usual_flows(self.net, self.file)
        return flows if self.unusual is None else unusual_flows(flows, self.unusual)

    def rate(self, flow: Flow, second_of_day: float) -> float:
        """Return the mean departures per hour of a flow at a time of day, before the scale."""
        level, evening = self.course.at(second_of_day)
        return level * ((1 - evening) * flow.morning + evening * flow.evening)

    def movement_flows(self, second_of_day: float) -> Mapping[tuple[str, str], float]:
        """Return the usual vehicles per hour from each edge to the next at a time of day."""
        net = load_net(self.net)
        volumes: dict[tuple[str, str], float] = defaultdict(float)
        for flow in usual_flows(self.net, self.file):
            for movement in pairwise(net.route(flow.start, flow.end)):
                volumes[movement] += self.scale * self.rate(flow, second_of_day)
        return volumes

    def trips(self, seed: int) -> list[Trip]:
        """Draw the trips that depart in [begin_s, end_s), ordered by departure.

        Departures of each flow are a Poisson process. Each slot of the day has random numbers of
        its own, so one seed gives the same trips for a slot whatever the window around it.
        """
        net, flows = load_net(self.net), self.flows
        truck_share = read_demand(self.file).truck_share
        routes = [net.route(flow.start, flow.end) for flow in flows]
        trips: list[Trip] = []
        for slot in range(self.begin_s // SLOT_S, -(-self.end_s // SLOT_S)):
            rng = np.random.default_rng((seed, slot))
            middle = (slot + 0.5) * SLOT_S
            for flow, route in zip(flows, routes, strict=True):
                mean = self.scale * self.rate(flow, middle) * SLOT_S / HOUR_S
                number = rng.poisson(mean)
                departures = (slot + rng.random(number)) * SLOT_S
                is_truck = rng.random(number) < truck_share
                trips += [
                    Trip(round(float(depart), 2), "truck" if truck else "car", route)
                    for depart, truck in zip(departures, is_truck, strict=True)
                    if self.begin_s <= depart < self.end_s
                ]
        return sorted(trips)


@cache
def usual_flows(net_file: Path, demand_file: Path) -> tuple[Flow, ...]:
    """Distribute what enters over the exits in reach, never back to where it came from."""
    net, demand = load_net(net_file), read_demand(demand_file)
    straight_on = {(each.start, each.end): each.factor for each in demand.straight_on}
    flows = []
    for entry in demand.entries:
        origin = net.edges[entry.edge][0]
        ends = [
            exit_
            for exit_ in demand.exits
            if net.edges[exit_.edge][1] != origin and net.route(entry.edge, exit_.edge)
        ]
        pull = np.array(
            [
                np.multiply(
                    (each.morning, each.evening), straight_on.get((entry.edge, each.edge), 1.0)
                )
                for each in ends
            ]
        )
        rates = (entry.morning, entry.evening) * pull / pull.sum(axis=0)
        flows += [
            Flow(entry.edge, each.edge, float(morning), float(evening))
            for each, (morning, evening) in zip(ends, rates, strict=True)
        ]
    return tuple(flows)


def unusual_flows(flows: tuple[Flow, ...], seed: int) -> tuple[Flow, ...]:
    """Return flows with other turning shares, and up to 40 % more or less of each entry.

    Each flow's share of its entry is multiplied by exp(N(0, 0.7)); as many vehicles enter in all.
    """
    rng = np.random.default_rng((seed, 7))
    starts = list(dict.fromkeys(flow.start for flow in flows))
    entering = np.array([[f.morning, f.evening] for f in flows])
    turns = entering * np.exp(rng.normal(0, UNUSUAL_TURNS, (len(flows), 1)))
    entry = rng.uniform(1 - UNUSUAL_ENTRIES, 1 + UNUSUAL_ENTRIES, len(starts))
    for number, start in enumerate(starts):
        of_start = [flow.start == start for flow in flows]
        total = entering[of_start].sum(axis=0)
        turns[of_start] *= entry[number] * total / turns[of_start].sum(axis=0)
    turns *= entering.sum(axis=0) / turns.sum(axis=0)
    return tuple(
        Flow(flow.start, flow.end, float(morning), float(evening))
        for flow, (morning, evening) in zip(flows, turns, strict=True)
    )


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
