"""The planner that a policy imitates: it searches each junction's phases for the next two minutes.

It sees every vehicle, which no detector does, and so controls simulations only.
Rolling-horizon control goes back to OPAC (Gartner, "OPAC: A Demand-Responsive Strategy for Traffic
Signal Control", Transportation Research Record 906, 1983).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from statistics import harmonic_mean

import libsumo
import numpy as np
from numpy.typing import NDArray

from lab.sim.controllers import walks_served
from lab.sim.environment import Environment, layers_of
from lab.sim.observation import Observation
from models.networks.form import VEHICLE_SPACE_M, JunctionEntry, Lane
from models.signals.safety import SafetyLayer

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

HORIZON_S = 120
BEAM_WIDTH = 100  # plans kept per first action
HEADWAY_S = 2.0  # between vehicles that leave a queue
START_S = 2.0  # of green lost by the first vehicle
YELLOW_USED_S = 1.0
WALKERS = 100.0  # who leave a crossing while one vehicle leaves a lane
SERVED = {"G": 1.0, "g": 0.3}  # share of a green's vehicles; those of g must give way
DRIVING_MPS = 12.0  # on the way to the stop line
STOPPING_MPS = 2.0  # slower vehicles count as queued
EMPTYING = 0.2  # vehicles per second that leave a lane behind the junction, on which some stand
LONG_QUEUE = 5.0  # vehicles; a queue of this length costs double, as it blocks others
SMOOTHING_S = 250.0  # of a lane's mean arrivals, which replace vehicles that are not visible yet
FIRST_RATE = 0.06  # vehicles per lane and second, before any are known
OVERRIDDEN_COST_S = 500.0  # of an action that the safety layer would replace


class Planner:
    """Finds plans behind the safety layer, or under the scenario's own times without it.

    It avoids actions that the layer would replace because another phase has waited too long.
    """

    def __init__(self, environment: Environment) -> None:
        scenario = environment.scenario
        layers = layers_of(scenario) if scenario.guarded else {}
        change_s = scenario.yellow_s + scenario.all_red_s
        self._environment = environment
        self._junctions = {}
        for each in scenario.network.junctions:
            n_phases, layer = len(each.phases), layers.get(each.id)
            if layer:
                changes_s = np.array(layer.changes_s, float)
                min_green_s = np.array(layer.min_green_s, float)
                maximum_red = _MaximumRed(layer)
            else:
                changes_s = np.full((n_phases, n_phases), float(change_s))
                min_green_s = np.full(n_phases, float(scenario.min_green_s))
                maximum_red = None
            self._junctions[each.id] = _JunctionPlanner(
                each, changes_s, min_green_s, scenario.decision_s, maximum_red
            )

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        """Return the first action of each junction's cheapest plan."""
        return {name: int(costs.argmin()) for name, costs in self.plan(observations).items()}

    def plan(self, observations: Mapping[str, Observation]) -> dict[str, Floats]:
        """Return per junction the cost (n_phases,) of the best plan that begins with each action.

        The unit is a second of a vehicle, in queues that are not long. Where the phase must stay,
        all others cost infinity.
        """
        shown, calls = self._environment.shown, self._environment.pedestrian_calls()
        return {
            name: self._junctions[name].plan(each, shown[name].red_s, calls)
            for name, each in observations.items()
        }


class _MaximumRed:
    """The layer's rule that all phases must be served in time."""

    def __init__(self, layer: SafetyLayer) -> None:
        self._phases = np.arange(len(layer.phases))
        self._max_red_s = np.array(layer.max_red_s)
        self._asked_every_s = layer.limits.asked_every_s
        self._turn_s = layer.shortest_phase_s + self._asked_every_s
        longest_change_s = max(map(max, layer.changes_s))
        self._latest_s = -longest_change_s - self._phases[:-1] * self._turn_s

    def replaces(self, reds_s: Floats, old: Indices, new: Indices) -> NDArray[np.bool_]:
        """Return for which plans the layer would choose another phase than the new one.

        Args:
            reds_s: (..., n_phases) how long each phase has been red.
            old, new: (...,) the phase that is green, and the one that is asked for.
        """
        over_s = np.where(self._phases == old[..., None], 0.0, reds_s) - self._max_red_s
        over_s = np.where(self._phases == new[..., None], -np.inf, over_s)
        over_s = np.sort(over_s, axis=-1)[..., :0:-1]  # the most urgent first, without the new one
        next_s = np.where(old == new, self._asked_every_s, self._turn_s)
        return np.asarray((over_s > self._latest_s - next_s[..., None]).any(-1))


class _JunctionPlanner:
    """Plans of one junction.

    Args:
        changes_s: (n_phases, n_phases) from the end of a green to the other phase's green.
        min_green_s: (n_phases,).
        maximum_red: None without the safety layer.
    """

    def __init__(
        self,
        junction: JunctionEntry,
        changes_s: Floats,
        min_green_s: Floats,
        decision_s: int,
        maximum_red: _MaximumRed | None = None,
    ) -> None:
        self._lanes = [_stretches(lane) for lane in junction.lanes]
        self._crossings = junction.crossings
        links = junction.links or ()
        self._to = [[each.to for each in links if each.lane == lane.id] for lane in junction.lanes]
        self._n_phases = len(junction.phases)
        self._decision_s = decision_s
        self._n_decisions = ceil(HORIZON_S / decision_s)
        self._rates = np.full(len(self._lanes), FIRST_RATE * decision_s)
        self._seen: set[str] = set()
        served = np.hstack([_served(junction), WALKERS * walks_served(junction)])
        self._leaving = _leaving(served, changes_s, decision_s)
        self._locked = np.ceil((changes_s + min_green_s) / decision_s)  # decisions until the next
        np.fill_diagonal(self._locked, 0)
        self._maximum_red = maximum_red

    def plan(
        self, observation: Observation, reds_s: Sequence[float], calls: Mapping[str, float]
    ) -> Floats:
        phase = int(observation[: self._n_phases].argmax())
        arrivals = self._arrivals(calls)
        if observation[self._n_phases]:
            return self._search(arrivals, self._room(), phase, reds_s)
        costs = np.full(self._n_phases, np.inf)
        costs[phase] = 0.0
        return costs

    def _arrivals(self, calls: Mapping[str, float]) -> Floats:
        """(decisions, lanes and crossings) that reach the queue; those in it are of the first."""
        walkers = [calls.get(each, 0.0) for each in self._crossings]
        arrivals = np.zeros((self._n_decisions, len(self._lanes) + len(walkers)))
        arrivals[0, len(self._lanes) :] = walkers
        present: set[str] = set()
        decision_m = DRIVING_MPS * self._decision_s
        for column, stretches in enumerate(self._lanes):
            for lane, share, begin_m in stretches:
                for vehicle in libsumo.lane.getLastStepVehicleIDs(lane):
                    distance_m = begin_m - libsumo.vehicle.getLanePosition(vehicle)
                    drives = libsumo.vehicle.getSpeed(vehicle) > STOPPING_MPS
                    decision = int(distance_m / decision_m) if drives else 0
                    if decision < self._n_decisions:
                        arrivals[decision, column] += share
            on_lane = set(libsumo.lane.getLastStepVehicleIDs(stretches[0][0]))
            entered = len(on_lane - self._seen)
            present |= on_lane
            self._rates[column] += self._decision_s / SMOOTHING_S * (entered - self._rates[column])
            seen_m = max(begin_m for _, _, begin_m in stretches)
            arrivals[int(seen_m / decision_m) :, column] += self._rates[column]
        self._seen = present
        return arrivals

    def _room(self) -> Floats:
        """(lanes and crossings): how many may leave until the lane of one of their ways is full."""
        rooms = [
            min((len(ways) * _room_on(lane) for lane in ways), default=np.inf) for ways in self._to
        ]
        return np.array(rooms + [np.inf] * len(self._crossings))

    def _search(
        self, arrivals: Floats, room: Floats, phase: int, reds_s: Sequence[float]
    ) -> Floats:
        """Search by beams, one for each first action.

        Plans have shape (first actions, plans), and their branches (first actions, next phases,
        plans); queues and room have a first axis for lanes and crossings.
        """
        n_phases, n_queues = self._n_phases, len(room)
        rows = following = np.arange(n_phases)[:, None]
        # decisions since the last change began, from some on without a difference
        oldest = self._leaving.shape[-1] - 1
        leaving = self._leaving.reshape(n_queues, -1)
        phases = previous = np.full((n_phases, 1), phase)
        age = np.full((n_phases, 1), oldest + self._n_decisions)
        costs, queues = np.zeros((n_phases, 1)), np.zeros((n_queues, n_phases, 1))
        room = np.tile(room[:, None, None], (1, n_phases, 1))
        reds = np.tile(np.array(reds_s, float), (n_phases, 1, 1))
        for decision, arriving in enumerate(arrivals):
            stays = following == phases[:, None]
            if decision:
                possible = stays | (age + 1 >= self._locked[previous, phases])[:, None]
            else:
                possible = np.eye(n_phases, dtype=bool)[..., None]
            ages = np.where(stays, age[:, None] + 1, 0)
            before = np.where(stays, previous[:, None], phases[:, None])
            at = (before * n_phases + following) * (oldest + 1) + np.minimum(ages, oldest)
            arrived = (queues + arriving[:, None, None])[:, :, None]
            most = leaving.take(at, axis=1)
            left = np.minimum(np.minimum(arrived, most), room[:, :, None])
            waiting = arrived - left
            paid = self._decision_s * (waiting * (1 + waiting / LONG_QUEUE)).sum(0)
            if self._maximum_red is not None:
                replaced = self._maximum_red.replaces(reds[:, None], phases[:, None], following)
                paid += OVERRIDDEN_COST_S * replaced
            totals = np.where(possible, costs[:, None] + paid, np.inf).reshape(n_phases, -1)
            best = np.argpartition(totals, min(BEAM_WIDTH, totals.shape[1]) - 1)[:, :BEAM_WIDTH]
            phases, parents = np.divmod(best, stays.shape[-1])
            best += rows * totals.shape[1]
            costs, age, previous = totals.take(best), ages.take(best), before.take(best)
            queues = waiting.reshape(n_queues, -1).take(best, axis=1)
            gone = left.reshape(n_queues, -1).take(best, axis=1)
            room = room[:, rows, parents] - gone + EMPTYING * self._decision_s
            reds = reds[rows, parents] + self._decision_s
            reds[phases[..., None] == following[:, 0]] = 0
        return np.asarray(costs.min(axis=1))


def _stretches(lane: Lane) -> list[tuple[str, float, float]]:
    """Return the lane, and those behind it, on which a short one has its queue.

    Each is its id, the share of its vehicles that come, and the metres from its begin to the line.
    """
    metres = libsumo.lane.getLength
    own_m = float(metres(lane.id))
    behind = (
        (each.lane, each.share, own_m + float(metres(each.lane))) for each in lane.behind or ()
    )
    return [(lane.id, 1.0, own_m), *behind]


def _room_on(lane: str) -> float:
    """Return how many more vehicles fit behind those that stand on a lane."""
    for drive, vehicle in enumerate(libsumo.lane.getLastStepVehicleIDs(lane)):  # the last one first
        if libsumo.vehicle.getSpeed(vehicle) < STOPPING_MPS:
            free_m = libsumo.vehicle.getLanePosition(vehicle) - libsumo.vehicle.getLength(vehicle)
            return max(0.0, float(free_m) / VEHICLE_SPACE_M - drive)
    return np.inf


def _served(junction: JunctionEntry) -> Floats:
    """(n_phases, n_lanes): the share of a green's vehicles that leave a lane, 0 to 1.

    Vehicles of all ways of a lane take turns, so that one way without green stops the lane.
    """

    def share(state: str, lane: str) -> float:
        links = (at for at, link in junction.placed_links if link.lane == lane)
        return harmonic_mean([SERVED.get(state[at], 0.0) for at in links])

    return np.array(
        [
            [share(phase.state or "", lane.id) for lane in junction.lanes]
            for phase in junction.phases
        ]
    )


def _leaving(served: Floats, changes_s: Floats, decision_s: int) -> Floats:
    """Return the vehicles that may leave in each decision of a phase; the last holds for all later.

    Returns:
        (lanes and crossings, n_phases before, n_phases, decisions).
    """
    n_phases, n_queues = served.shape
    n_decisions = ceil((float(changes_s.max()) + START_S) / decision_s) + 1
    leaving = np.zeros((n_queues, n_phases, n_phases, n_decisions))
    for old in range(n_phases):
        for new in range(n_phases):
            kept = np.minimum(served[old], served[new])
            gained, lost = served[new] - kept, served[old] - kept
            for at in range(n_decisions):
                begin_s, end_s = at * decision_s, (at + 1) * decision_s
                green_s = max(0.0, end_s - max(begin_s, changes_s[old, new] + START_S))
                leaving[:, old, new, at] = (kept * decision_s + gained * green_s) / HEADWAY_S
            leaving[:, old, new, 0] += lost * YELLOW_USED_S / HEADWAY_S
    return leaving
