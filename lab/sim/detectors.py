"""What detectors on the approaches of each junction would report, minute by minute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import libsumo

from lab.net.net import SumoLane
from lab.sim.scenario import Scenario

_CAR_M = 5.0  # length of a car, SUMO's default


class Minute(NamedTuple):
    """The approaches of one junction in one minute.

    Attributes:
        vehicle_count: vehicles that crossed the stop lines.
        avg_speed: km/h, mean over the vehicles seen; the speed limit when there was none.
        occupancy: share of the lanes' length under vehicles, 0 to 1.
    """

    vehicle_count: int
    avg_speed: float
    occupancy: float


class Detectors:
    """Watches the running simulation; looks every few seconds miss no vehicle on these roads."""

    def __init__(self, scenario: Scenario) -> None:
        lanes = scenario.sumo_net.lanes
        self._approaches = {
            each.id: _Approaches([lanes[lane.id] for lane in each.lanes])
            for each in scenario.network.junctions
        }

    def look(self) -> None:
        """See which vehicles are where now."""
        for approaches in self._approaches.values():
            approaches.look()

    def minute(self) -> dict[str, Minute]:
        """Return what was seen since the last call, by junction id."""
        return {junction_id: each.minute() for junction_id, each in self._approaches.items()}


class _Approaches:
    def __init__(self, lanes: Sequence[SumoLane]) -> None:
        self._edges = sorted({lane.edge for lane in lanes})
        self._length_m = sum(lane.length_m for lane in lanes)
        self._speed_limit = max(lane.speed_limit for lane in lanes)
        self._here: set[str] = set()
        self._begin()

    def _begin(self) -> None:
        self._looks = self._crossed = 0
        self._speeds: list[float] = []

    def look(self) -> None:
        here = {each for edge in self._edges for each in libsumo.edge.getLastStepVehicleIDs(edge)}
        self._crossed += len(self._here - here)
        self._speeds += [3.6 * libsumo.vehicle.getSpeed(vehicle) for vehicle in here]
        self._here = here
        self._looks += 1

    def minute(self) -> Minute:
        seen = len(self._speeds)
        speed = sum(self._speeds) / seen if seen else 3.6 * self._speed_limit
        occupancy = seen * _CAR_M / (self._length_m * max(1, self._looks))
        minute = Minute(self._crossed, round(speed, 1), round(min(1.0, occupancy), 4))
        self._begin()
        return minute
