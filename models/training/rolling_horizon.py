"""The teacher: plans each junction's phases over the next minute from where every vehicle is.

It sees what no detector sees, every vehicle on the approaches, and so is a controller for the
simulator only. Rolling-horizon control goes back to OPAC (Gartner, "OPAC: A Demand-Responsive
Strategy for traffic signal control", Transportation Research Record 906, 1983).
"""

from __future__ import annotations

from collections.abc import Mapping

import libsumo
import numpy as np
from numpy.typing import NDArray

from models.networks.shipped import JUNCTIONS
from models.simulation.environment import DECISION_S
from models.simulation.observation import Observation
from models.simulation.road_network import JunctionLayout, RoadNetwork

Array = NDArray[np.float64]

HORIZON = 12  # decisions, so one minute
BEAM_WIDTH = 16  # plans kept per first action
DISCHARGE = 2.75  # vehicles that leave a queue per lane and decision of green
DISCHARGE_AT_CHANGE = 0.6  # the same in a decision that begins with yellow
DRIVING_SPEED = 12.0  # m/s on the way to the stop line
STOPPING_SPEED = 2.0  # m/s; slower vehicles count as queued
LONG_QUEUE = 15.0  # vehicles; a queue of this length counts double, for all that it blocks
REMAINING_QUEUE_COST = 8.0  # decisions that a queue left at the horizon will go on waiting
RATE_SMOOTHING = 0.02  # of the mean arrivals per lane, which stand in beyond the visible vehicles


class RollingHorizon:
    """Chooses per junction the first action of the cheapest plan found."""

    def __init__(self, network: RoadNetwork) -> None:
        self._layouts = network.junctions
        self._served = {
            junction_id: served_lanes(network, junction_id) for junction_id in JUNCTIONS
        }
        self.reset()

    def reset(self) -> None:
        self._rates = {
            junction_id: np.full(len(layout.lanes), 0.3)
            for junction_id, layout in self._layouts.items()
        }
        self._seen: dict[str, str] = {}

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        return {
            junction_id: int(costs.argmin())
            for junction_id, costs in self.plan(observations).items()
        }

    def plan(self, observations: Mapping[str, Observation]) -> dict[str, Array]:
        """Per junction, the cost (n_phases,) of the best plan that begins with each action.

        Unit: about vehicles times decisions. Where the phase must stay, all others cost infinity.
        """
        return {
            junction_id: self._plan_junction(junction_id, observation)
            for junction_id, observation in observations.items()
        }

    def _plan_junction(self, junction_id: str, observation: Observation) -> Array:
        n_phases = JUNCTIONS[junction_id].n_phases
        phase = int(observation[:n_phases].argmax())
        arrivals = self._arrivals(self._layouts[junction_id])
        costs = np.full(n_phases, np.inf)
        if not observation[n_phases]:
            costs[phase] = 0.0
            return costs
        for action in range(n_phases):
            costs[action] = plan_cost(arrivals, self._served[junction_id], phase, action)
        return costs

    def _arrivals(self, layout: JunctionLayout) -> Array:
        """(HORIZON, n_lanes) vehicles that reach the queue per decision; those in it come first."""
        arrivals = np.zeros((HORIZON, len(layout.lanes)))
        rates = self._rates[layout.id]
        for column, lane in enumerate(layout.lanes):
            vehicles = libsumo.lane.getLastStepVehicleIDs(lane.id)
            entered = 0
            for vehicle in vehicles:
                if self._seen.get(vehicle) != lane.id:
                    self._seen[vehicle] = lane.id
                    entered += 1
                distance = lane.length_m - libsumo.vehicle.getLanePosition(vehicle)
                driving = libsumo.vehicle.getSpeed(vehicle) > STOPPING_SPEED
                decision = int(distance / DRIVING_SPEED / DECISION_S) if driving else 0
                if decision < HORIZON:
                    arrivals[decision, column] += 1
            rates[column] += RATE_SMOOTHING * (entered - rates[column])
            arrivals[int(lane.length_m / DRIVING_SPEED / DECISION_S) :, column] += rates[column]
        return arrivals


def served_lanes(network: RoadNetwork, junction_id: str) -> Array:
    """(n_phases, n_lanes): 1 where all movements of the lane have green, else 0."""
    layout = network.junctions[junction_id]
    return np.array(
        [
            [
                all(a.greens[phase] in "Gg" for a in layout.approaches if lane.id in a.lanes)
                for lane in layout.lanes
            ]
            for phase in range(len(layout.phases))
        ],
        float,
    )


def plan_cost(arrivals: Array, served: Array, phase: int, action: int) -> float:
    """Least cost found, by beam search, among the plans that begin with an action.

    Args:
        arrivals: (HORIZON, n_lanes) vehicles that join each queue per decision.
        served: (n_phases, n_lanes) 1 where the phase serves the lane.
        phase: the current phase, which may change now.
        action: the first action of the plans.
    """
    queues = np.zeros((1, served.shape[1]))
    costs = np.zeros(1)
    previous, phases = np.array([phase]), np.array([action])
    for decision, arriving in enumerate(arrivals):
        if decision > 0:
            parents, phases, previous = _branch(phases, previous, len(served))
            queues, costs = queues[parents], costs[parents]
        changing = (phases != previous)[:, None]
        kept = served[phases] * served[previous]
        leaving = np.where(
            changing,
            DISCHARGE * kept + DISCHARGE_AT_CHANGE * (served[phases] - kept),
            DISCHARGE * served[phases],
        )
        queues = np.maximum(0, queues + arriving - leaving)
        waiting = _queue_cost(queues)
        costs = costs + waiting
        best = np.argsort(costs + REMAINING_QUEUE_COST * waiting, kind="stable")[:BEAM_WIDTH]
        queues, costs, phases, previous = queues[best], costs[best], phases[best], previous[best]
    return float((costs + REMAINING_QUEUE_COST * _queue_cost(queues)).min())


def _queue_cost(queues: Array) -> Array:
    """Cost (n_plans,) of a decision of waiting; without the square, a jam starves short phases."""
    return np.asarray((queues * (1 + queues / LONG_QUEUE)).sum(axis=1))


def _branch(
    phases: NDArray[np.intp], previous: NDArray[np.intp], n_phases: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Continue each plan with its phase and, unless it has just changed, with every other phase.

    Returns the index of the plan that is continued, its next phase, and the phase before that.
    """
    every = np.arange(len(phases))
    free = every[phases == previous]
    parents, following = [every], [phases]
    for phase in range(n_phases):
        others = free[phases[free] != phase]
        parents.append(others)
        following.append(np.full(len(others), phase))
    all_parents = np.concatenate(parents)
    return all_parents, np.concatenate(following), phases[all_parents]
