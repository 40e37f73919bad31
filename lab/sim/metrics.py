"""How well a stretch of time went, counted over every vehicle that wanted to drive in it."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from lab.sim.details import Details


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
    def of(cls, departed: Sequence[Sequence[float]], waits_s: Sequence[float]) -> Departed:
        """Return the means.

        Args:
            departed: waiting, travel, delay, departure and wait to depart of each vehicle.
            waits_s: of those that did not depart, until the end.
        """
        if not departed:
            return NO_DEPARTURES
        table = np.array(departed)
        last = table[table[:, 3].argmax()]
        end_s = (table[:, 3] + table[:, 1]).max()
        since_planned_s = end_s - (last[3] - last[4])
        later = [wait_s for wait_s in waits_s if wait_s < since_planned_s]
        waiting_s, travel_s = table[:, :2].mean(axis=0).tolist()
        return cls(len(table), waiting_s, travel_s, float(np.mean([*table[:, 2], *later])))


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
        demanded, arrived: numbers of vehicles.
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

    def delay_s(self, pedestrian_weight: float, bus_weight: float = 1.0) -> float:
        """Return the mean delay, in which a pedestrian or a bus counts as so many vehicles."""
        walks = pedestrian_weight * self.walks.number
        buses, bus_loss_s = self.classes.get("bus", (0, 0.0))
        more = (bus_weight - 1) * buses
        if not walks and not more:
            return self.time_loss_s
        total_s = self.time_loss_s * self.demanded + self.walks.mean_s * walks + bus_loss_s * more
        return total_s / (self.demanded + walks + more)


def read_trip_metrics(
    path: str | os.PathLike[str],
    queues: Mapping[str, float],
    statistics: str | os.PathLike[str] | None = None,
    classes: Mapping[str, str] = NO_CLASSES,
) -> Metrics:
    """Sum up SUMO's tripinfo file, written with its unfinished and undeparted vehicles.

    Args:
        statistics: SUMO's statistic file.
        classes: by type of vehicle.
    """
    rows, walks, departed, waits_s = [], [], [], []
    losses: defaultdict[str, list[float]] = defaultdict(list)
    for _, trip in ET.iterparse(path):
        if trip.tag == "personinfo":
            # SUMO knows no time loss of a walk that has not ended, only how long it has waited
            walks += [
                max(float(walk.get("timeLoss", 0)), float(walk.get("waitingTime", 0)))
                for walk in trip.iterfind("walk")
            ]
            trip.clear()
        if trip.tag != "tripinfo":
            continue
        delay = float(trip.attrib["departDelay"])
        driven = [float(trip.attrib[key]) for key in ("waitingTime", "duration", "timeLoss")]
        arrived = float(trip.attrib["arrival"]) >= 0
        rows.append([*(seconds + delay for seconds in driven), arrived])
        depart_s = float(trip.attrib["depart"])
        if depart_s >= 0:
            departed.append([*driven[:2], rows[-1][2], depart_s, delay])
        else:
            waits_s.append(delay)
        kind = trip.get("vType", "")
        losses[classes.get(kind, kind)].append(rows[-1][2])
        trip.clear()
    table = np.array(rows).reshape(-1, 4)
    waiting, travel, time_loss = table[:, :3].mean(axis=0) if rows else (0.0, 0.0, 0.0)
    return Metrics(
        waiting_s=float(waiting),
        travel_s=float(travel),
        time_loss_s=float(time_loss),
        queues=dict(queues),
        demanded=len(rows),
        arrived=int(table[:, 3].sum()),
        walks=Walks.of(walks),
        incidents=NO_INCIDENTS if statistics is None else _read_incidents(statistics),
        classes={
            each: (len(losses[each]), float(np.mean(losses[each]))) for each in sorted(losses)
        },
        departed=Departed.of(departed, waits_s),
    )


def _read_incidents(path: str | os.PathLike[str]) -> Incidents:
    root = ET.parse(path).getroot()
    safety, teleports = (next(root.iter(tag)).attrib for tag in ("safety", "teleports"))
    return Incidents(
        int(safety["collisions"]), int(teleports["total"]), int(safety["emergencyBraking"])
    )
