"""Controllers: what decides the phases of a run. One interface, so that one loop compares them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lab.sim.environment import Count, Environment, Observations
from lab.sim.metrics import Metrics
from lab.sim.observation import Observation
from lab.sim.programs import Programs, actuated, own_programs, webster
from lab.sim.scenario import Counts, InvalidScenarioError, Scenario
from models.networks.form import JunctionEntry, NetworkFile
from models.networks.network import Network, network_of
from models.policy.form import HIDDEN_DIM
from models.policy.inputs import InputLayout
from models.policy.step import PolicyStep
from models.policy.training_record import read_record, record_of
from models.signals.clock_plan import ClockPlan

OnDecision = Callable[[Observations, dict[str, int]], None]


class Controller(Protocol):
    """Chooses a green phase for each junction at each decision of one run."""

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        """Return actions by junction id; a junction left out keeps its phase."""


MakeController = Callable[[Environment], Controller]
Control = Programs | MakeController


def run(
    scenario: Scenario,
    seed: int,
    control: Control,
    on_decision: OnDecision | None = None,
    outputs: Path | None = None,
) -> Metrics:
    """Simulate a scenario under one controller, or under programs that SUMO runs.

    Args:
        on_decision: called before each step with what was observed and decided.
        outputs: folder for what SUMO writes; None for a temporary one.
    """
    with open_run(scenario, seed, control, outputs) as (environment, controller, observations):
        while not environment.is_over:
            actions = controller.act(observations)
            if on_decision is not None:
                on_decision(observations, actions)
            observations = environment.step(actions)
        return environment.metrics()


@contextmanager
def open_run(
    scenario: Scenario, seed: int, control: Control, outputs: Path | None = None
) -> Iterator[tuple[Environment, Controller, Observations]]:
    """Begin a run: yield its environment, its controller, and what is observed first."""
    programs = control.elements if isinstance(control, Programs) else None
    with Environment(scenario, programs, outputs) as environment:
        observations = environment.reset(seed)
        controller = KeepPhase() if isinstance(control, Programs) else control(environment)
        yield environment, controller, observations


class KeepPhase:
    """Requests nothing."""

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        return {}


class AlwaysRed:
    """Requests phase 0 of every junction: the gateway's documented fallback, RED."""

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        return dict.fromkeys(observations, 0)


class PlanByClock:
    """Follows a fixed-time plan, read by the simulation's clock."""

    def __init__(self, plan: ClockPlan, begin_s: int, decision_s: int) -> None:
        self._plan = plan
        self._now_s = begin_s
        self._decision_s = decision_s

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        actions = {each: self._plan.at(each, self._now_s).phase for each in observations}
        self._now_s += self._decision_s
        return actions


class PolicyController:
    """Takes the most probable action of a policy, with one hidden state per junction."""

    def __init__(self, step: PolicyStep, network: Network) -> None:
        self._step = step
        self._network = network
        self._layout = InputLayout(network)
        self._hidden = np.zeros((network.n_agents, HIDDEN_DIM), np.float32)

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        inputs = self._layout.encode_all(observations)
        step = self._step(inputs, self._hidden, self._network.unavailable)
        self._hidden = step.hidden
        return dict(zip(self._network.ids, map(int, step.actions), strict=True))


class QueueRule(NamedTuple):
    """What counts as the queue of a phase.

    Attributes:
        counts: the vehicles of a lane that count; None for what the observations report.
        pressure: subtract from each way the vehicles on the lane that it leads to (Varaiya, 2013).
        shared: share a lane's vehicles evenly among its ways across the junction, as it is not
            known who turns where. Otherwise a phase that serves a lane in part counts all of them,
            and a phase of left turns alone can keep its green indefinitely in favour of a queue
            whose first vehicle goes straight on.
        yielding: weight of a way that has to give way: about half as many vehicles get through. At
            1, a phase of left turns alone never gets green where another lets them give way.
        hysteresis: vehicles by which another phase must lead.
        range_m: before the stop line, in which vehicles count; None for the whole lane.
        cyclic: keep the phases' cyclic order. A phase ends when the longest queue is another's, and
            of the phases that may follow the one with the longest queue gets green.
    """

    counts: Counts | None
    pressure: bool = False
    shared: bool = True
    yielding: float = 0.5
    hysteresis: float = 1e-9
    range_m: float | None = None
    cyclic: bool = False


GREEDY = QueueRule("all")
MAX_PRESSURE = QueueRule("standing", pressure=True)
"""Greedy and max pressure as in RESCO, Ault and Sharon, NeurIPS 2021, Datasets and Benchmarks."""

# What a policy observes. Without a lead, light traffic makes signals change all the time.
OBSERVED_QUEUES = QueueRule(None, shared=False, yielding=1.0, hysteresis=1.0)

NO_CALLS: Mapping[str, float] = MappingProxyType({})


class LongestQueue:
    """Gives green to the phase with the longest queue."""

    def __init__(self, network: NetworkFile, rule: QueueRule = GREEDY) -> None:
        self._junctions = {each.id: _Ways(each, rule) for each in network.junctions}

    def decide(
        self, phases: Mapping[str, int], count: Count, calls: Mapping[str, float] = NO_CALLS
    ) -> dict[str, int]:
        """Return a phase for each junction; the present one where none is better.

        Args:
            calls: of pedestrians, by crossing; they count as vehicles.
        """
        return {
            name: self._junctions[name].best(phase, count, calls) for name, phase in phases.items()
        }


class _Ways:
    """A junction's ways: from which lane, to which, and how much of it each phase serves."""

    def __init__(self, junction: JunctionEntry, rule: QueueRule) -> None:
        green = {"G": 1.0, "g": rule.yielding}
        lanes = {lane.id: lane for lane in junction.lanes}
        ways = [(i, link) for i, link in junction.placed_links if link.lane in lanes]
        self._crossings, self._walks = junction.crossings, walks_served(junction)
        self._hysteresis, self._cyclic = rule.hysteresis, rule.cyclic
        self.incoming = [lanes[link.lane] for _, link in ways]
        self._to = [link.to for _, link in ways] if rule.pressure else []
        self.served: NDArray[np.float64] = np.array(
            [
                _weights(
                    [(link.lane, green.get((phase.state or "")[i], 0.0)) for i, link in ways],
                    rule.shared,
                )
                for phase in junction.phases
            ]
        )

    def best(self, present: int, count: Count, calls: Mapping[str, float]) -> int:
        vehicles = np.array([lane.count(count) for lane in self.incoming], float)
        if self._to:
            vehicles -= [count(lane) for lane in self._to]
        queues = self.served @ vehicles
        if calls:
            queues = queues + self._walks @ [calls.get(each, 0.0) for each in self._crossings]
        best = int(queues.argmax())
        if queues[best] <= queues[present] + self._hysteresis:
            return present
        if self._cyclic and best < present:
            queues[1 : present + 1] = -np.inf  # none of these may follow
            best = int(queues.argmax())
        return best


def _weights(ways: Sequence[tuple[str, float]], shared: bool) -> list[float]:
    """Return how much of its lane's vehicles each way counts in a phase.

    Args:
        ways: lane, and how well the phase serves the way.
        shared: see QueueRule. Otherwise the first way of each lane counts for all of them.
    """
    if shared:
        n_ways = Counter(lane for lane, _ in ways)
        return [served / n_ways[lane] for lane, served in ways]
    best: dict[str, float] = {}
    for lane, served in ways:
        best[lane] = max(served, best.get(lane, 0.0))
    return [best.pop(lane, 0.0) for lane, _ in ways]


def shares_served(junction: JunctionEntry) -> NDArray[np.float64]:
    """Return (phases, lanes): which share of each lane's vehicles a phase serves under greedy."""
    ways = _Ways(junction, GREEDY)
    places = {lane.id: place for place, lane in enumerate(junction.lanes)}
    shares = np.zeros((len(junction.phases), len(places)))
    for way, lane in enumerate(ways.incoming):
        shares[:, places[lane.id]] += ways.served[:, way]
    return shares


def walks_served(junction: JunctionEntry) -> NDArray[np.float64]:
    """Return (phases, crossings): 1 where a phase lets people walk."""
    places = {name: place for place, link in junction.placed_links if (name := link.crossing)}
    return np.array(
        [[(phase.state or "")[i] in "Gg" for i in places.values()] for phase in junction.phases],
        float,
    )


class QueueController:
    """Decides by the queues that the detectors of a run report."""

    def __init__(self, rule: QueueRule, environment: Environment) -> None:
        scenario = environment.scenario
        rule = rule._replace(cyclic=rule.cyclic or scenario.cyclic)
        self._rule = LongestQueue(scenario.network, rule)
        self._environment = environment
        self._counts, self._range_m = rule.counts, rule.range_m

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        count: Count
        if self._counts is not None:
            detected = self._environment.detected
            count = partial(detected, counts=self._counts, range_m=self._range_m)
        else:
            network = self._environment.scenario.network
            count = observed_vehicles(network, observations).__getitem__
        calls = self._environment.pedestrian_calls()
        return self._rule.decide(self._environment.phases, count, calls)


def observed_vehicles(
    network: NetworkFile, observations: Mapping[str, Observation]
) -> dict[str, float]:
    """Return the vehicles on the lanes of observed junctions, where shares of them are observed."""
    return {
        lane.id: lane.capacity * float(observations[junction.id][place])
        for junction in network.junctions
        if junction.id in observations
        for place, lane in enumerate(junction.lanes, start=len(junction.phases) + 1)
    }


def policy_control(scenario: Scenario, weights: Path) -> MakeController:
    """Return what lets a policy's file decide.

    Raises:
        InvalidPolicyFileError: the weights do not fit the network.
        InvalidScenarioError: they were trained with other counts than those of the scenario.
    """
    trained = read_record(weights).counts if record_of(weights).exists() else scenario.counts
    if trained != scenario.counts:
        raise InvalidScenarioError(
            f"{weights} was trained with --counts {trained}; evaluate it with the same."
        )
    network = network_of(scenario.network)
    step = PolicyStep.load(weights, network)
    return lambda environment: PolicyController(step, network)


GUARDED = " behind the safety layer"  # of a controller's name

Registry = dict[str, Callable[[Scenario], Control]]

BY_SUMO: Registry = {
    "fixed time": own_programs,
    "Webster": webster,
    "actuated": lambda scenario: actuated(scenario, "actuated"),
    "delay-based": lambda scenario: actuated(scenario, "delay_based"),
}
BY_QUEUES: Registry = {
    "max pressure": lambda scenario: partial(QueueController, MAX_PRESSURE),
    "pressure within 100 m": lambda scenario: partial(
        QueueController,
        MAX_PRESSURE._replace(counts="all", range_m=100.0, hysteresis=scenario.lead),
    ),
    "greedy": lambda scenario: partial(QueueController, GREEDY),
    "longest queue": lambda scenario: partial(QueueController, OBSERVED_QUEUES),
}
CONTROLS = BY_SUMO | BY_QUEUES
