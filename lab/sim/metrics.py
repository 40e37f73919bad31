"""How well a stretch of time went, counted over every vehicle that wanted to drive in it."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from lab.sim.details import Details
from lab.sim.scenario import InvalidScenarioError
from lab.sim.trips import Trips, Values, read_trips


class Walks(NamedTuple):
    """Pedestrians, and their delay: seconds lost against walking freely, or waited by the end."""

    number: int
    mean_s: float
    percentile_95_s: float
    longest_s: float

    @classmethod
    def of(cls, delays_s: Sequence[float]) -> Walks:
        if not delays_s:
            return NO_WALKS
        delays = np.array(delays_s)
        return cls(
            len(delays), float(delays.mean()), float(np.percentile(delays, 95)), float(delays.max())
        )


NO_WALKS = Walks(0, 0.0, 0.0, 0.0)
NO_CLASSES: Mapping[str, str] = MappingProxyType({})


class Incidents(NamedTuple):
    """Numbers of events that SUMO counts; a vehicle that collides is teleported by default."""

    collisions: int
    teleports: int
    emergency_braking: int


NO_INCIDENTS = Incidents(0, 0, 0)
ALWAYS = -math.inf, math.inf


class Departed(NamedTuple):
    """Vehicles that found room to enter, and their mean seconds as RESCO's code counts them.

    Source: ``resco_benchmark/utils/readXML.py`` at https://github.com/Pi-Star-Lab/RESCO.

    Attributes:
        waiting_s, travel_s: from the departure on.
        delay_s: time loss and wait to depart. Of the others, those count that were to depart after
            the vehicle that departed last, with their wait until the end.
    """

    number: int
    waiting_s: float
    travel_s: float
    delay_s: float

    @classmethod
    def of(cls, values: Values) -> Departed:
        """Return the means of a run; ``values`` are those of its :class:`Trips`."""
        has_departed = values["depart"] >= 0
        if not has_departed.any():
            return NO_DEPARTURES
        names = "depart", "departDelay", "waitingTime", "duration", "timeLoss"
        table = np.column_stack([values[name][has_departed] for name in names])
        last = table[table[:, 0].argmax()]
        end_s = (table[:, 0] + table[:, 3]).max()
        waits_s = values["departDelay"][~has_departed]
        later = waits_s[waits_s < end_s - (last[0] - last[1])]
        waiting_s, travel_s = table[:, 2:4].mean(axis=0).tolist()
        losses_s = table[:, 4] + table[:, 1]
        return cls(len(table), waiting_s, travel_s, float(np.mean([*losses_s, *later])))


NO_DEPARTURES = Departed(0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Metrics:
    """Results of one simulation; times are means in seconds per vehicle of the demand.

    A vehicle still under way at the end counts with what it has suffered so far. One that found no
    room to enter counts with its whole wait at the boundary, in all three times.

    Attributes:
        waiting_s: standing, or waiting to enter.
        travel_s: from the planned departure to the arrival or the end of the simulation.
        time_loss_s: lost against free driving at the desired speed.
        queues: by junction, mean number of standing vehicles on its incoming lanes.
        demanded, arrived: numbers of vehicles, of which those had arrived at the end.
        served: vehicles that arrived in the counted period.
        walks: of pedestrians.
        classes: by SUMO's class of vehicles, their number and mean time loss.
        details: of a scenario that asks for them.
        departed: without the waits to enter.
    """

    waiting_s: float
    travel_s: float
    time_loss_s: float
    queues: Mapping[str, float]
    demanded: int
    arrived: int
    walks: Walks = NO_WALKS
    incidents: Incidents = NO_INCIDENTS
    classes: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    details: Details | None = None
    departed: Departed = NO_DEPARTURES
    served: int = 0

    def delay_s(self, pedestrian_weight: float, bus_weight: float = 1.0) -> float:
        """Return the mean delay, in which a pedestrian or a bus counts as so many vehicles."""
        walks = pedestrian_weight * self.walks.number
        buses, bus_loss_s = self.classes.get("bus", (0, 0.0))
        more = (bus_weight - 1) * buses
        if not walks and not more:
            return self.time_loss_s
        total_s = self.time_loss_s * self.demanded + self.walks.mean_s * walks + bus_loss_s * more
        return total_s / (self.demanded + walks + more)


def read_trip_metrics(path: Path) -> Metrics:
    """Sum up SUMO's tripinfo file, written with its unfinished and undeparted vehicles."""
    return sum_up(read_trips(path), {})


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
    vehicles, incidents = (0, NO_INCIDENTS) if statistics is None else _read_statistics(statistics)
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
    waiting, travel, time_loss = times.mean(axis=0) if number else (0.0, 0.0, 0.0)
    losses: defaultdict[str, list[float]] = defaultdict(list)
    for kind, loss in zip(trips.kinds, times[:, 2], strict=True):
        losses[classes.get(kind, kind)].append(loss)
    return Metrics(
        waiting_s=float(waiting),
        travel_s=float(travel),
        time_loss_s=float(time_loss),
        queues=dict(queues),
        demanded=number,
        arrived=int((values["arrival"] >= 0).sum()),
        walks=Walks.of(trips.walks_s),
        incidents=incidents,
        classes={
            each: (len(losses[each]), float(np.mean(losses[each]))) for each in sorted(losses)
        },
        departed=Departed.of(values),
        served=int(served.sum()),
    )


def _read_statistics(path: Path) -> tuple[int, Incidents]:
    """Return the vehicles that entered or wait to do so, and the incidents."""
    root = ET.parse(path).getroot()
    vehicles, safety, teleports = (
        {name: int(value) for name, value in next(root.iter(tag)).attrib.items()}
        for tag in ("vehicles", "safety", "teleports")
    )
    incidents = safety["collisions"], teleports["total"], safety["emergencyBraking"]
    return vehicles["inserted"] + vehicles["waiting"], Incidents(*incidents)
