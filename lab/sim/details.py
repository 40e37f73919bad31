"""What a planner asks beyond means: the longest waits, stops, emissions, approaches and demand.

SUMO writes trips with emissions (HBEFA, by each vehicle's emission class), and the moment at which
a vehicle leaves each road of its route.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from lab.net.net import SumoNet
from lab.sim.metrics import Approach, Metrics
from lab.sim.trips import EMITTED, Values, read_routes
from models.networks.form import Lane, NetworkFile, road_of

SLOTS_S = (60, 300, 900, 1800, 3600)
MOST_SLOTS = 24
OPTIONS = (
    *("--device.emissions.probability=1", "--vehroute-output.exit-times"),
    "--vehroute-output.intended-depart",
)

Pending = Sequence[tuple[str, float]]  # where a vehicle waits to enter, and for how long


def slot_of(begin_s: int, end_s: int) -> int:
    """Return the seconds of a slot of time, of which there are MOST_SLOTS at most."""
    fitting = (each for each in SLOTS_S if end_s - begin_s <= MOST_SLOTS * each)
    return next(fitting, -((begin_s - end_s) // MOST_SLOTS))


class Queues:
    """Counts the standing vehicles on the roads to each signal, at each decision."""

    def __init__(self, network: NetworkFile) -> None:
        self._lanes = {each.id: _by_road(each.lanes) for each in network.junctions}
        self._sums: defaultdict[str, float] = defaultdict(float)
        self._longest: defaultdict[str, float] = defaultdict(float)
        self._n_counted = 0

    def count(self, standing: Callable[[str], float]) -> None:
        """Count once.

        Args:
            standing: vehicles on a lane.
        """
        self._n_counted += 1
        for roads in self._lanes.values():
            for road, lanes in roads.items():
                vehicles = sum(lane.count(standing) for lane in lanes)
                self._sums[road] += vehicles
                self._longest[road] = max(self._longest[road], vehicles)

    @property
    def of_junctions(self) -> dict[str, float]:
        """By junction, the mean number on its incoming lanes."""
        return {name: sum(map(self.mean, roads)) for name, roads in self._lanes.items()}

    def mean(self, road: str) -> float:
        return self._sums[road] / max(1, self._n_counted)

    def longest(self, road: str) -> float:
        return self._longest[road]


def _by_road(lanes: Sequence[Lane]) -> dict[str, list[Lane]]:
    roads: defaultdict[str, list[Lane]] = defaultdict(list)
    for lane in lanes:
        roads[road_of(lane.id)].append(lane)
    return roads


def roads_behind(network: NetworkFile) -> dict[str, set[str]]:
    """Return by approach the roads on which its vehicles wait: itself, and those behind it."""
    roads: defaultdict[str, set[str]] = defaultdict(set)
    for lane in (lane for each in network.junctions for lane in each.lanes):
        behind = {road_of(each.lane) for each in lane.behind or ()}
        roads[road_of(lane.id)] |= {road_of(lane.id), *behind}
    return roads


def with_details(
    metrics: Metrics,
    values: Values,
    routes: Path,
    pending: Pending,
    net: SumoNet,
    network: NetworkFile,
    queues: Queues,
    period_s: tuple[int, int],
) -> Metrics:
    """Return metrics with what only trips and SUMO's file of routes have.

    Args:
        values: of the :class:`.Trips`.
        routes: written with its unfinished vehicles.
        period_s: begin and end of the simulation.
    """
    begin_s, end_s = period_s
    n_vehicles, delay = len(values["depart"]), values["departDelay"]
    waiting = values["waitingTime"] + delay
    planned = np.where(values["depart"] >= 0, values["depart"], end_s) - delay
    emitted = np.column_stack([values[name] for name in EMITTED])
    co2_kg, nox_kg, fuel_kg = emitted.sum(axis=0) / 1e6  # SUMO writes mg
    slot_s = slot_of(begin_s, end_s)
    slots = np.arange(begin_s, end_s + slot_s, slot_s)
    waits = _waits(routes, pending, net, roads_behind(network), end_s)
    return replace(
        metrics,
        waiting_95_s=float(np.percentile(waiting, 95)) if n_vehicles else 0.0,
        longest_waiting_s=float(waiting.max(initial=0)),
        stops=float(values["waitingCount"].sum() / max(1, n_vehicles)),
        co2_kg=float(co2_kg),
        nox_g=float(1000 * nox_kg),
        fuel_kg=float(fuel_kg),
        driven_km=float(values["routeLength"].sum() / 1000),
        departures=tuple(map(int, np.histogram(planned, slots)[0])),
        approaches={road: _approach(road, seconds, queues) for road, seconds in waits.items()},
    )


def _approach(road: str, waits_s: Sequence[float], queues: Queues) -> Approach:
    counted = len(waits_s), queues.mean(road), queues.longest(road)
    if not waits_s:
        return Approach(*counted, 0.0, 0.0, 0.0)
    mean_s, most_s = float(np.mean(waits_s)), float(np.percentile(waits_s, 95))
    return Approach(*counted, mean_s, most_s, max(waits_s))


def _waits(
    path: Path, pending: Pending, net: SumoNet, behind: Mapping[str, set[str]], end_s: int
) -> dict[str, list[float]]:
    """Return by approach the seconds that each vehicle took beyond driving freely."""
    waits: dict[str, list[float]] = {road: [] for road in behind}
    counted = set().union(*behind.values())
    for vehicle, route in read_routes(path):
        roads = route.attrib["edges"].split()
        here_s, factor = float(vehicle.attrib["depart"]), float(vehicle.get("speedFactor", 1))
        waited: defaultdict[str, float] = defaultdict(float)
        for place, left in enumerate(route.attrib["exitTimes"].split()):
            left_s = float(left)
            is_there = left_s < 0
            if (road := roads[place]) in counted:
                ahead = next((each for each in roads[place:] if each in behind), None)
                if ahead is not None and road in behind[ahead]:
                    taken_s = (end_s if is_there else left_s) - here_s
                    waited[ahead] += max(0.0, taken_s - _free_s(net, road, factor))
            if is_there:
                break
            here_s = left_s
        for road, seconds in waited.items():
            waits[road].append(seconds)
    for road, seconds in pending:
        if road in waits:
            waits[road].append(seconds)
    return waits


def _free_s(net: SumoNet, road: str, speed_factor: float) -> float:
    """Return the seconds of a drive along a road at the limit, times the driver's factor."""
    lanes = net.edge_lanes[road]
    limit = max(lane.speed_limit for lane in lanes)
    return max(lane.length_m for lane in lanes) / (limit * speed_factor)
