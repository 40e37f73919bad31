"""The environment: all signals of a scenario at once, simulated by SUMO in this process.

``reset`` and ``step`` use dicts by junction id, as a parallel multi-agent environment does. SUMO's
library keeps one simulation per process, so only one environment can be open at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import libsumo
import numpy as np

from lab.processes import RunFolder
from lab.sim.details import Queues, with_details
from lab.sim.loops import Loops
from lab.sim.metrics import Metrics, sum_up
from lab.sim.observation import Observation, encode_observation
from lab.sim.scenario import Counts, InvalidScenarioError, Scenario
from lab.sim.signal import GuardedSignal, Signal, TimedSignal
from lab.sim.simulator import ROUTES, STATISTICS, TRIPS, Change, start, sumo_errors
from lab.sim.trips import read_trips
from models.networks.network import network_of
from models.signals.monitor import make_monitors
from models.signals.safety import Limits, SafetyLayer, Shown, read_layers

_BROKEN_SEED = 11  # apart from other draws of the same seed
STANDS_MPS = 0.1  # SUMO's bound of standing
BUS = "bus"  # SUMO's class
CALL_S = 10.0  # of waiting that make a pedestrian count as one more

Observations = dict[str, Observation]
Count = Callable[[str], float]  # vehicles on a lane


class Environment:
    """A context manager that frees the simulator.

    Args:
        programs: SUMO's ``tlLogic`` elements, in XML; the net's own programs run where they name
            none. None to set signals by actions.
        outputs: folder for what SUMO writes; None for a temporary one.

    Attributes:
        seed: of the run.
        time_s: in SUMO's clock.
        changes: of the signals that actions set, in their order.
    """

    def __init__(
        self,
        scenario: Scenario,
        programs: Sequence[str] | None = None,
        outputs: Path | None = None,
    ) -> None:
        self.scenario = scenario
        self._kept_outputs = outputs
        self._programs = programs
        self._junctions = {each.id: each for each in scenario.network.junctions}
        self._scales = {
            name: junction.scales
            for name, junction in network_of(scenario.network).junctions.items()
        }
        self._folder: RunFolder | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the simulator and its files; closing twice is harmless."""
        libsumo.close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def reset(self, seed: int) -> Observations:
        """Start the scenario anew; the seed draws drivers, and vehicles if the demand is drawn.

        Raises:
            InvalidScenarioError: SUMO refuses it, such as for routes that leave the network.
        """
        self.close()
        self.seed = seed
        self._folder = RunFolder()
        folder = self._outputs = self._kept_outputs or Path(self._folder.name)
        self._loops = self._new_loops()
        elements = (*(self._programs or ()), *(self._loops.elements if self._loops else ()))
        with sumo_errors(self.scenario, self._programs):
            start(self.scenario, seed, folder, elements)
        self.time_s = self.scenario.begin_s
        self.changes: list[Change] = []
        self._shown = dict.fromkeys(self._junctions, "")
        self._signals = self._new_signals()
        self._broken = self._draw_broken(seed)
        self._queues = Queues(self.scenario.network)
        return self._observe()

    @property
    def is_over(self) -> bool:
        if self.time_s < self.scenario.counted_s[1]:
            return False
        n_left = libsumo.simulation.getMinExpectedNumber
        return self.time_s >= self.scenario.end_s or n_left() == 0

    @property
    def phases(self) -> dict[str, int]:
        """The phase of each junction; during a change the one to come."""
        return {name: signal.phase for name, signal in self._signals.items()}

    @property
    def shown(self) -> dict[str, Shown]:
        """What each junction shows."""
        return {name: signal.shown for name, signal in self._signals.items()}

    @property
    def choices(self) -> dict[str, bool]:
        """Whether each junction's next action makes a difference to its phase."""
        return {name: signal.has_choice for name, signal in self._signals.items()}

    def step(self, actions: Mapping[str, int]) -> Observations:
        """Request green phases and let the time of a decision pass.

        A junction without an entry keeps its phase; so does one in a change or in minimum green.

        Raises:
            ValueError: an action that the junction does not have.
            KeyError: an unknown junction.
            InvalidScenarioError: SUMO ends, such as for routes that leave the network.
        """
        for name, phase in (self.phases | dict(actions)).items():
            self._signals[name].request(phase)
        began_s = self.time_s
        until_s = min(began_s + self.scenario.decision_s, self.scenario.end_s)
        with sumo_errors(self.scenario, self._programs):
            while self.time_s < until_s:
                if self._programs is None:
                    self._show()
                    self.time_s += 1
                else:
                    self.time_s = until_s
                self._simulate()
        if self._loops is not None:
            self._loops.measure(self._signals, self.time_s - began_s)
        begin_s, end_s = self.scenario.counted_s
        if begin_s < self.time_s <= end_s:
            self._queues.count(self.standing)
        return self._observe()

    def _simulate(self) -> None:
        """Let SUMO reach the present second; loops report each of its steps."""
        if self._loops is None:
            libsumo.simulationStep(self.time_s)
            return
        while libsumo.simulation.getTime() < self.time_s:
            libsumo.simulationStep()
            self._loops.look()

    def standing(self, lane: str) -> int:
        """Return the standing vehicles on any lane of the net."""
        return int(libsumo.lane.getLastStepHaltingNumber(lane))

    def vehicles(self, lane: str) -> int:
        """Return all vehicles on any lane of the net."""
        return int(libsumo.lane.getLastStepVehicleNumber(lane))

    def pedestrian_calls(self) -> dict[str, float]:
        """Return by crossing the people who wait for it, each 1 and 1 more per ten seconds waited.

        So a crossing that is not served comes before any queue in the end.
        """
        return {
            crossing: sum(1 + seconds / CALL_S for seconds in waited_s)
            for crossing, waited_s in self.waiting_pedestrians().items()
        }

    def waiting_pedestrians(self) -> dict[str, list[float]]:
        """Return by crossing for how many seconds each person who waits there has been standing."""
        waited_s: defaultdict[str, list[float]] = defaultdict(list)
        for person in libsumo.person.getIDList():
            if libsumo.person.getSpeed(person) < STANDS_MPS:
                crossing = str(libsumo.person.getNextEdge(person))
                waited_s[crossing].append(float(libsumo.person.getWaitingTime(person)))
        return waited_s

    def detected(self, lane: str, counts: Counts, range_m: float | None = None) -> float:
        """Return what the detector of a lane counts, be it broken; buses have their weight.

        With the detectors of the network file, buses have none, and other lanes are empty.

        Args:
            range_m: before the stop line, if the detector counts all vehicles, each as one, there.
        """
        if lane in self._broken:
            return self._broken[lane]
        if self._loops is not None:
            known = self._loops.standing if counts == "standing" else self._loops.vehicles
            return known.get(lane, 0.0)
        if range_m is not None:
            return len(vehicles_within(lane, range_m))
        counted = self.standing(lane) if counts == "standing" else self.vehicles(lane)
        if self.scenario.bus_weight == 1 or not counted:
            return counted
        buses = sum(
            libsumo.vehicle.getVehicleClass(vehicle) == BUS
            and (counts == "all" or libsumo.vehicle.getSpeed(vehicle) < STANDS_MPS)
            for vehicle in libsumo.lane.getLastStepVehicleIDs(lane)
        )
        return counted + (self.scenario.bus_weight - 1) * int(buses)

    def metrics(self) -> Metrics:
        """Close the simulation, at its end or before, and count what happened until now."""
        types = libsumo.vehicletype
        classes = {each: types.getVehicleClass(each) for each in types.getIDList()}
        pending = [
            (libsumo.vehicle.getRoute(each)[0], libsumo.vehicle.getDepartDelay(each))
            for each in libsumo.simulation.getPendingVehicles()
        ]
        libsumo.close()
        trips, queues = read_trips(self._outputs / TRIPS), self._queues
        scenario, statistics = self.scenario, self._outputs / STATISTICS
        counts_all = scenario.counted_s == (scenario.begin_s, scenario.end_s)
        period = () if counts_all else (scenario.counted_s, self.time_s)
        metrics = sum_up(trips, queues.of_junctions, statistics, classes, *period)
        if not scenario.detailed:
            return metrics
        routes = self._outputs / ROUTES
        net, period_s = scenario.sumo_net, (scenario.begin_s, self.time_s)
        values, network = trips.values, scenario.network
        return with_details(metrics, values, routes, pending, net, network, queues, period_s)

    def _new_signals(self) -> dict[str, Signal]:
        scenario = self.scenario
        if scenario.guarded:
            layers, monitors = layers_of(scenario), make_monitors(network_of(scenario.network))
            return {name: GuardedSignal(layers[name], monitors[name]) for name in self._junctions}
        rules = scenario.yellow_s, scenario.all_red_s, scenario.min_green_s, scenario.cyclic
        return {
            name: TimedSignal([phase.state or "" for phase in junction.phases], *rules)
            for name, junction in self._junctions.items()
        }

    def _new_loops(self) -> Loops | None:
        if not self.scenario.detectors or self._programs is not None:
            return None
        return Loops(self.scenario.network)

    def _draw_broken(self, seed: int) -> dict[str, float]:
        """Return what broken detectors count, by lane."""
        share = self.scenario.detector_reads
        if share is None:
            return {}
        rng = np.random.default_rng((seed, _BROKEN_SEED))
        lanes = [each.lanes[rng.integers(len(each.lanes))] for each in self._junctions.values()]
        return {lane.id: share * lane.capacity for lane in lanes}

    def _show(self) -> None:
        for name, signal in self._signals.items():
            state = signal.advance()
            if state != self._shown[name]:
                libsumo.trafficlight.setRedYellowGreenState(name, state)
                self._shown[name] = state
                self.changes.append(Change(self.time_s, name, state))

    def _detect(self, lane: str) -> float:
        return self.detected(lane, self.scenario.counts)

    def _observe(self) -> Observations:
        calls_s: dict[str, float] = {}
        observed = self.scenario.network.pedestrian_calls
        if observed:
            waiting = self.waiting_pedestrians()
            calls_s = {crossing: max(waited_s) for crossing, waited_s in waiting.items()}
        observations = {}
        for name, junction in self._junctions.items():
            signal = self._signals[name]
            counted = [lane.count(self._detect) for lane in junction.lanes]
            if observed:
                counted += [calls_s.get(each, 0.0) for each in junction.crossings]
            observations[name] = encode_observation(
                signal.phase, len(junction.phases), signal.may_change, counted, self._scales[name]
            )
        return observations


def vehicles_within(lane: str, range_m: float) -> list[str]:
    """Return the vehicles on the last meters of a lane of the running simulation."""
    first_m = libsumo.lane.getLength(lane) - range_m
    vehicles = libsumo.lane.getLastStepVehicleIDs(lane)
    return [each for each in vehicles if libsumo.vehicle.getLanePosition(each) >= first_m]


def layers_of(scenario: Scenario) -> dict[str, SafetyLayer]:
    """Return the safety layer of each junction.

    Raises:
        InvalidScenarioError: the network file has no intergreen times, or they are too long to
            serve every phase within the maximum red.
    """
    limits = Limits(
        asked_every_s=scenario.decision_s,
        max_walk_wait_s=scenario.max_walk_wait_s,
        cyclic=scenario.cyclic,
    )
    try:
        return read_layers(limits, network_of(scenario.network))
    except ValueError as error:
        raise InvalidScenarioError(f"The safety layer cannot be used: {error}.") from None
