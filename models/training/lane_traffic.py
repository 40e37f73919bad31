"""What happens at each junction, read from the running simulation."""

from __future__ import annotations

from dataclasses import dataclass

import libsumo
import numpy as np
from numpy.typing import NDArray

from models.simulation.road_network import SPEED_LIMIT, RoadBeyond, RoadNetwork


@dataclass(frozen=True)
class LaneTraffic:
    """One junction at one moment: its incoming lanes, and for the delay what lies beyond them.

    Attributes:
        vehicles: (n_lanes,) vehicles on each lane.
        waiting_s: how long the vehicles on the lanes have now been standing, in total.
        pending: vehicles that found no room to enter the network at this junction.
        delayed: vehicles, each counted by the share of the speed limit that it lacks; those
            pending count fully. Vehicles that cross the junction, and those that have left it for
            the network's boundary, are counted too: there they pay for having stopped.
    """

    vehicles: NDArray[np.float64]
    waiting_s: float
    pending: int
    delayed: float


def read_lane_traffic(network: RoadNetwork) -> dict[str, LaneTraffic]:
    """By junction id, in the order of the network's junctions."""
    return {junction_id: _read_junction(network, junction_id) for junction_id in network.junctions}


def _read_junction(network: RoadNetwork, junction_id: str) -> LaneTraffic:
    lanes = [lane.id for lane in network.junctions[junction_id].lanes]
    edges = {lane.edge for lane in network.junctions[junction_id].lanes}
    vehicles = np.array([libsumo.lane.getLastStepVehicleNumber(lane) for lane in lanes], float)
    speeds = np.array([libsumo.lane.getLastStepMeanSpeed(lane) for lane in lanes])
    entries = sorted(edges.intersection(network.entries))
    pending = sum(len(libsumo.edge.getPendingVehicles(edge)) for edge in entries)
    return LaneTraffic(
        vehicles=vehicles,
        waiting_s=sum(libsumo.lane.getWaitingTime(lane) for lane in lanes),
        pending=pending,
        delayed=float(vehicles @ np.maximum(0, 1 - speeds / SPEED_LIMIT))
        + sum(_delayed_beyond(road) for road in network.junctions[junction_id].beyond)
        + pending,
    )


def _delayed_beyond(road: RoadBeyond) -> float:
    vehicles = int(libsumo.edge.getLastStepVehicleNumber(road.edge))
    speed = float(libsumo.edge.getLastStepMeanSpeed(road.edge)) if vehicles else 0.0
    return vehicles * max(0.0, 1 - speed / road.speed_limit)
