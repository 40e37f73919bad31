"""SUMO's files of trips and routes, which are read here alone."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = Mapping[str, NDArray[np.float64]]
EMITTED = "CO2_abs", "NOx_abs", "fuel_abs"
READ = (
    *("depart", "departDelay", "arrival", "waitingTime", "duration", "timeLoss"),
    *("waitingCount", "routeLength", *EMITTED),
)


class Trips(NamedTuple):
    """SUMO's file of trips.

    Attributes:
        values: of all vehicles, by the names in READ; masses in mg.
        kinds: their types.
        walks_s: delays of the pedestrians' walks.
    """

    values: Values
    kinds: list[str]
    walks_s: list[float]

    def planned(self, period_s: tuple[float, float], end_s: float) -> Trips:
        """Return the trips that were to begin in a period, with all walks.

        Args:
            end_s: of the simulation, until which vehicles waited that never departed.
        """
        departed_s = np.where(self.values["depart"] >= 0, self.values["depart"], end_s)
        planned_s = departed_s - self.values["departDelay"]
        counts = (planned_s >= period_s[0]) & (planned_s < period_s[1])
        values = {name: column[counts] for name, column in self.values.items()}
        return Trips(values, [*compress(self.kinds, counts)], self.walks_s)


def read_trips(path: Path) -> Trips:
    """Read SUMO's tripinfo file."""
    rows, kinds, walks_s = [], [], []
    for _, element in ET.iterparse(path):
        if element.tag == "personinfo":
            # SUMO knows no time loss of a walk that has not ended, only how long it has waited
            walks_s += [
                max(float(walk.get("timeLoss", 0)), float(walk.get("waitingTime", 0)))
                for walk in element.iterfind("walk")
            ]
            element.clear()
        elif element.tag == "tripinfo":
            emissions = element.find("emissions")
            known = element.attrib | ({} if emissions is None else emissions.attrib)
            rows.append([float(known.get(name, 0)) for name in READ])
            kinds.append(element.get("vType", ""))
            element.clear()
    columns = np.array(rows).reshape(-1, len(READ)).T
    return Trips(dict(zip(READ, columns, strict=True)), kinds, walks_s)


def read_routes(path: Path) -> Iterator[tuple[ET.Element, ET.Element]]:
    """Yield the vehicles of a file of SUMO's, each with the last route that it took."""
    for _, vehicle in ET.iterparse(path):
        if vehicle.tag == "vehicle":
            yield vehicle, vehicle.findall(".//route")[-1]
            vehicle.clear()
