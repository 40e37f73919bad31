"""How well a stretch of time went, counted over every vehicle that wanted to drive in it."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from lab.sim.scenario import InvalidScenarioError
from lab.sim.trips import Trips, Values

NO_CLASSES: Mapping[str, str] = MappingProxyType({})
ALWAYS = -math.inf, math.inf


class Approach(NamedTuple):
    """A road to a signal.

    Attributes:
        vehicles: that drove on it, or waited to enter the network there.
        queue, longest_queue: standing vehicles, as mean and largest number at a decision.
        wait_s, wait_95_s, longest_wait_s: mean, 95th percentile and maximum of what vehicles took
            until the next road, beyond driving freely; a wait to enter the network counts.
    """

    vehicles: float
    queue: float
    longest_queue: float
    wait_s: float
    wait_95_s: float
    longest_wait_s: float


@dataclass(frozen=True)
class Metrics:
    """Results of one simulation; times are means in seconds per vehicle of the demand.

    A vehicle still under way at the end counts with what it has suffered so far. One that found no
    room to enter counts with its whole wait at the boundary, in all three times.

    Attributes:
        delay_s: time lost against free driving at the desired speed, and the wait to depart, as
            RESCO defines it.
        waiting_s: standing, or waiting to enter.
        trip_s: from the planned departure to the arrival or the end of the simulation.
        demanded, arrived: numbers of vehicles, of which those had arrived at the end.
        queues: by junction, mean number of standing vehicles on its incoming lanes.
        served: vehicles that arrived in the counted period.
        departed: vehicles that found room to enter.
        classes: by SUMO's class of vehicles, their number and delay.
        walks: of pedestrians; their delay is the time lost against walking freely, or waited by
            the end.
        walk_delay_95_s: its 95th percentile.
        collisions, teleports, emergency_braking: events that SUMO counts; a vehicle that collides
            is teleported by default.
        resco_trip_s, resco_waiting_s, resco_delay_s: see :func:`as_resco_counts`; None where a run
            did not record them.
        waiting_95_s, longest_waiting_s: of the vehicles' waiting; these and the others are for a
            scenario that asks for details.
        stops: per vehicle.
        co2_kg, nox_g, fuel_kg, driven_km: of all vehicles together.
        departures: vehicles that wanted to depart, by slots of :func:`.slot_of`.
        approaches: by road.
    """

    delay_s: float
    waiting_s: float
    trip_s: float
    demanded: int
    arrived: int
    queues: Mapping[str, float] = field(default_factory=dict)
    served: int = 0
    departed: int = 0
    classes: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    walks: int = 0
    walk_delay_s: float = 0.0
    walk_delay_95_s: float = 0.0
    walk_delay_longest_s: float = 0.0
    collisions: int = 0
    teleports: int = 0
    emergency_braking: int = 0
    resco_trip_s: float | None = None
    resco_waiting_s: float | None = None
    resco_delay_s: float | None = None
    waiting_95_s: float = 0.0
    longest_waiting_s: float = 0.0
    stops: float = 0.0
    co2_kg: float = 0.0
    nox_g: float = 0.0
    fuel_kg: float = 0.0
    driven_km: float = 0.0
    departures: Sequence[int] = ()
    approaches: Mapping[str, Approach] = field(default_factory=dict)

    def weighed_delay_s(self, pedestrian_weight: float, bus_weight: float = 1.0) -> float:
        """Return the mean delay, in which a pedestrian or a bus counts as so many vehicles."""
        walks = pedestrian_weight * self.walks
        buses, bus_delay_s = self.classes.get("bus", (0, 0.0))
        more = (bus_weight - 1) * buses
        if not walks and not more:
            return self.delay_s
        total_s = self.delay_s * self.demanded + self.walk_delay_s * walks + bus_delay_s * more
        return total_s / (self.demanded + walks + more)


def sum_up(
    trips: Trips,
    queues: Mapping[str, float],
    statistics: Path | None = None,
    classes: Mapping[str, str] = NO_CLASSES,
    counted_s: tuple[float, float] = ALWAYS,
    end_s: float = math.inf,
) -> Metrics:
    """Return the metrics of a run's trips.

    Args:
        statistics: SUMO's statistic file.
        classes: by type of vehicle.
        counted_s: begin and end of the period whose planned departures count.
        end_s: of the simulation.

    Raises:
        InvalidScenarioError: SUMO counts more vehicles.
    """
    number = len(trips.kinds)
    vehicles, incidents = (0, {}) if statistics is None else _read_statistics(statistics)
    if number < vehicles:
        raise InvalidScenarioError(
            f"SUMO reports the trips of {number} of {vehicles} vehicles: some, or their types, have"
            " the parameter has.tripinfo.device. Remove it: the delay counts all vehicles."
        )
    arrivals_s = trips.values["arrival"]
    served = (arrivals_s >= max(0, counted_s[0])) & (arrivals_s <= counted_s[1])
    if counted_s != ALWAYS:
        trips = trips.planned(counted_s, end_s)
    values, number = trips.values, len(trips.kinds)
    driven = np.column_stack([values[key] for key in ("waitingTime", "duration", "timeLoss")])
    times = driven + values["departDelay"][:, None]
    waiting, trip, delay = times.mean(axis=0) if number else (0.0, 0.0, 0.0)
    delays: defaultdict[str, list[float]] = defaultdict(list)
    for kind, loss in zip(trips.kinds, times[:, 2], strict=True):
        delays[classes.get(kind, kind)].append(loss)
    walks_s = np.array(trips.walks_s or [0.0])
    return Metrics(
        delay_s=float(delay),
        waiting_s=float(waiting),
        trip_s=float(trip),
        demanded=number,
        arrived=int((values["arrival"] >= 0).sum()),
        queues=dict(queues),
        served=int(served.sum()),
        departed=int((values["depart"] >= 0).sum()),
        classes={
            each: (len(delays[each]), float(np.mean(delays[each]))) for each in sorted(delays)
        },
        walks=len(trips.walks_s),
        walk_delay_s=float(walks_s.mean()),
        walk_delay_95_s=float(np.percentile(walks_s, 95)),
        walk_delay_longest_s=float(walks_s.max()),
        **incidents,
        **as_resco_counts(values),
    )


def as_resco_counts(values: Values) -> dict[str, Any]:
    """Return the times of vehicles that found room to enter, by their names in Metrics.

    Waiting and trip begin with the departure. Delay has the wait to depart. Of the other vehicles,
    those count for it that were to depart after the vehicle that departed last, with their wait
    until the end. Source: ``resco_benchmark/utils/readXML.py`` at
    https://github.com/Pi-Star-Lab/RESCO.
    """
    has_departed = values["depart"] >= 0
    if not has_departed.any():
        return dict.fromkeys(("resco_trip_s", "resco_waiting_s", "resco_delay_s"), 0.0)
    names = "depart", "departDelay", "waitingTime", "duration", "timeLoss"
    table = np.column_stack([values[name][has_departed] for name in names])
    last = table[table[:, 0].argmax()]
    end_s = (table[:, 0] + table[:, 3]).max()
    waits_s = values["departDelay"][~has_departed]
    later = waits_s[waits_s < end_s - (last[0] - last[1])]
    waiting_s, trip_s = table[:, 2:4].mean(axis=0).tolist()
    delay_s = float(np.mean([*(table[:, 4] + table[:, 1]), *later]))
    return {"resco_trip_s": trip_s, "resco_waiting_s": waiting_s, "resco_delay_s": delay_s}


def _read_statistics(path: Path) -> tuple[int, dict[str, Any]]:
    """Return the vehicles that entered or wait to do so, and the incidents."""
    root = ET.parse(path).getroot()
    vehicles, safety, teleports = (
        {name: int(value) for name, value in next(root.iter(tag)).attrib.items()}
        for tag in ("vehicles", "safety", "teleports")
    )
    return vehicles["inserted"] + vehicles["waiting"], {
        "collisions": safety["collisions"],
        "teleports": teleports["total"],
        "emergency_braking": safety["emergencyBraking"],
    }
