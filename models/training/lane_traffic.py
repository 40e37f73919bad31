"""What happens on the lanes that lead to each junction, read from the running simulation."""

from __future__ import annotations

from dataclasses import dataclass

import libsumo
import numpy as np
from numpy.typing import NDArray

from models.shipped.layout import SPEED_LIMIT
from models.simulation.road_network import RoadNetwork


@dataclass(frozen=True)
class LaneTraffic:
    """The incoming lanes of one junction at one moment.

    Attributes:
        vehicles: (n_lanes,) vehicles on each lane.
        waiting_s: how long the vehicles on the lanes have now been standing, in total.
        pending: vehicles that found no room to enter the network at this junction.
        delayed: vehicles, each counted by the share of the speed limit that it lacks; those
            pending count fully.
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
        delayed=float(vehicles @ np.maximum(0, 1 - speeds / SPEED_LIMIT)) + pending,
    )
