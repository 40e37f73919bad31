"""The planner that a policy imitates: it searches each junction's phases for the next 80 s.

It sees the position of every vehicle, which no detector does, and so controls simulations only.
Rolling-horizon control goes back to OPAC (Gartner, "OPAC: A Demand-Responsive Strategy for Traffic
Signal Control", Transportation Research Record 906, 1983).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import libsumo
import numpy as np
from numpy.typing import NDArray

from models.networks.form import JunctionEntry
from models.simulation.environment import Environment, layers_of
from models.simulation.observation import Observation
from models.simulation.scenario import Scenario

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

HORIZON = 16  # decisions
BEAM_WIDTH = 12  # plans kept per first action
HEADWAY_S = 2.0  # between vehicles that leave a queue
START_S = 2.0  # of green lost by the first vehicle
YELLOW_USED_S = 1.0
DRIVING_MPS = 12.0  # on the way to the stop line
STOPPING_MPS = 2.0  # slower vehicles count as queued
LONG_QUEUE = 15.0  # vehicles; a queue of this length costs double, as it blocks others
REMAINING_COST = 2.0  # decisions that a queue left at the horizon will continue to wait
SMOOTHING = 0.02  # of the mean arrivals per lane, which replace vehicles that are not visible yet
FIRST_RATE = 0.3  # vehicles per lane and decision, before any are known
OLD = 2  # decisions since the last change began from which its age makes no difference


class Planner:
    """Finds plans behind the safety layer, or under the scenario's own times without it.

    It leaves the layer's maximum red to the layer.
    """

    def __init__(self, environment: Environment) -> None:
        scenario = environment.scenario
        changes_s, min_green_s = _signal_times(scenario)
        self._junctions = {
            each.id: _JunctionPlanner(
                each, changes_s[each.id], min_green_s[each.id], scenario.decision_s
            )
            for each in scenario.network.junctions
        }

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        """Return the first action of each junction's cheapest plan."""
        return {name: int(costs.argmin()) for name, costs in self.plan(observations).items()}

    def plan(self, observations: Mapping[str, Observation]) -> dict[str, Floats]:
        """Return per junction the cost (n_phases,) of the best plan that begins with each action.

        The unit is a vehicle that waits for a decision, in queues that are not long. Where the
        phase must stay, all others cost infinity.
        """
        return {name: self._junctions[name].plan(each) for name, each in observations.items()}


class _JunctionPlanner:
    """Plans of one junction.

    Args:
        changes_s: (n_phases, n_phases) from the end of a green to the other phase's green.
        min_green_s: (n_phases,).
    """

    def __init__(
        self, junction: JunctionEntry, changes_s: Floats, min_green_s: Floats, decision_s: int
    ) -> None:
        self._lanes = [(lane.id, float(libsumo.lane.getLength(lane.id))) for lane in junction.lanes]
        self._n_phases = len(junction.phases)
        self._decision_s = decision_s
        self._rates = np.full(len(self._lanes), FIRST_RATE)
        self._seen: set[str] = set()
        self._leaving = _leaving(_served(junction), changes_s, decision_s)
        self._locked = np.ceil((changes_s + min_green_s) / decision_s)  # decisions until the next
        np.fill_diagonal(self._locked, 0)

    def plan(self, observation: Observation) -> Floats:
        phase = int(observation[: self._n_phases].argmax())
        arrivals = self._arrivals()
        if observation[self._n_phases]:
            return self._search(arrivals, phase)
        costs = np.full(self._n_phases, np.inf)
        costs[phase] = 0.0
        return costs

    def _arrivals(self) -> Floats:
        """(HORIZON, n_lanes) vehicles that reach the queue per decision; those in it come first."""
        arrivals = np.zeros((HORIZON, len(self._lanes)))
        present: set[str] = set()
        decision_m = DRIVING_MPS * self._decision_s
        for column, (lane, length_m) in enumerate(self._lanes):
            vehicles = libsumo.lane.getLastStepVehicleIDs(lane)
            entered = len(set(vehicles) - self._seen)
            present.update(vehicles)
            for vehicle in vehicles:
                distance_m = length_m - libsumo.vehicle.getLanePosition(vehicle)
                drives = libsumo.vehicle.getSpeed(vehicle) > STOPPING_MPS
                decision = int(distance_m / decision_m) if drives else 0
                if decision < HORIZON:
                    arrivals[decision, column] += 1
            self._rates[column] += SMOOTHING * (entered - self._rates[column])
            arrivals[int(length_m / decision_m) :, column] += self._rates[column]
        self._seen = present
        return arrivals

    def _search(self, arrivals: Floats, phase: int) -> Floats:
        """Search by beams, one for each first action; plans have shape (first actions, plans)."""
        n_phases = self._n_phases
        rows = np.arange(n_phases)[:, None]
        phases = rows
        previous = np.full((n_phases, 1), phase)
        age = np.where(phases == phase, OLD + HORIZON, 0)  # decisions since the last change began
        queues, costs = np.zeros((n_phases, 1, len(self._lanes))), np.zeros((n_phases, 1))
        for decision, arriving in enumerate(arrivals):
            if decision:
                parents, following = _branches(n_phases, phases.shape[1])
                old, then = phases[rows, parents], previous[rows, parents]
                since = age[rows, parents]
                stays = following == old
                possible = stays | (since + 1 >= self._locked[then, old])
                costs = np.where(possible, costs[rows, parents], np.inf)
                queues = queues[rows, parents]
                age = np.where(stays, since + 1, 0)
                phases, previous = following, np.where(stays, then, old)
            leaving = self._leaving[previous, phases, np.minimum(age, OLD)]
            queues = np.maximum(0, queues + arriving - leaving)
            waiting = (queues * (1 + queues / LONG_QUEUE)).sum(-1)
            costs = costs + waiting
            total = costs + REMAINING_COST * waiting
            if total.shape[1] > BEAM_WIDTH:
                best = np.argpartition(total, BEAM_WIDTH, axis=1)[:, :BEAM_WIDTH]
                queues, costs, total = queues[rows, best], costs[rows, best], total[rows, best]
                phases, previous, age = phases[rows, best], previous[rows, best], age[rows, best]
        return np.asarray(total.min(axis=1))


@cache
def _branches(n_phases: int, n_plans: int) -> tuple[Indices, Indices]:
    """Return (first actions, branches): the plan that each continues, and its next phase."""
    shape = n_phases, n_plans * n_phases
    parents = np.repeat(np.arange(n_plans), n_phases)
    following = np.tile(np.arange(n_phases), n_plans)
    return np.broadcast_to(parents, shape), np.broadcast_to(following, shape)


def _signal_times(scenario: Scenario) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return by junction the times of changes between phases, and the phases' minimum green."""
    if scenario.guarded:
        layers = layers_of(scenario)
        return (
            {name: np.array(layer.changes_s, float) for name, layer in layers.items()},
            {name: np.array(layer.min_green_s) for name, layer in layers.items()},
        )
    sizes = {each.id: len(each.phases) for each in scenario.network.junctions}
    change_s = float(scenario.yellow_s + scenario.all_red_s)
    return (
        {name: np.full((size, size), change_s) for name, size in sizes.items()},
        {name: np.full(size, float(scenario.min_green_s)) for name, size in sizes.items()},
    )


def _served(junction: JunctionEntry) -> Floats:
    """(n_phases, n_lanes): 1 where all ways of the lane have green, else 0."""
    links = junction.placed_links
    return np.array(
        [
            [
                all((phase.state or "")[at] in "Gg" for at, link in links if link.lane == lane.id)
                for lane in junction.lanes
            ]
            for phase in junction.phases
        ],
        float,
    )


def _leaving(served: Floats, changes_s: Floats, decision_s: int) -> Floats:
    """Return the vehicles that may leave in the first, second and any later decision of a phase.

    Returns:
        (n_phases before, n_phases, OLD + 1, n_lanes).
    """
    n_phases, n_lanes = served.shape
    leaving = np.zeros((n_phases, n_phases, OLD + 1, n_lanes))
    for old in range(n_phases):
        for new in range(n_phases):
            kept = served[old] * served[new]
            gained, lost = served[new] - kept, served[old] - kept
            for at in range(OLD + 1):
                begin_s, end_s = at * decision_s, (at + 1) * decision_s
                green_s = max(0.0, end_s - max(begin_s, changes_s[old, new] + START_S))
                leaving[old, new, at] = (kept * decision_s + gained * green_s) / HEADWAY_S
            leaving[old, new, 0] += lost * YELLOW_USED_S / HEADWAY_S
    return leaving
