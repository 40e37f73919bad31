"""What the demo simulates: the shipped network at a time of day, or any city with its traffic."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from greenwave.client import Client
from models.networks.form import NetworkFile
from models.networks.network import Network, network_of
from models.networks.shipped import SHIPPED
from models.simulation.city.controllers import ByQueues
from models.simulation.city.environment import CityEnvironment
from models.simulation.city.options import scenario_of
from models.simulation.city.scenario import CityScenario
from models.simulation.controllers import Controller, KeepPhase
from models.simulation.detectors import Detectors
from models.simulation.environment import DECISION_S, Scenario, TrafficEnvironment
from models.simulation.fixed_time import FixedTime
from models.simulation.metrics import Metrics
from models.simulation.observation import Observation
from models.simulation.road_network import read_network
from serve_app.demo.flow_forecasts import FlowForecasts

BEGIN_S, SECONDS = 27_000, 3600  # of the shipped network: half past seven, an hour

AfterStep = Callable[[int], None]


class Environment(Protocol):
    """A simulation as a context manager; ``time_s`` is in seconds of its own clock."""

    time_s: int

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: Any) -> None: ...
    def reset(self, seed: int) -> Mapping[str, Observation]: ...
    def step(self, actions: Mapping[str, int]) -> Mapping[str, Observation]: ...
    def metrics(self) -> Metrics: ...


@dataclass(frozen=True)
class Stage:
    """A network with its traffic, and who else controls its signals.

    Attributes:
        instead: decides where the policy is not to be had; ``instead_in_words`` says how.
        peer: whom the policy is compared with; ``peer_in_words`` says who that is.
        open: makes the simulation, told whether the policy drives it.
        watch: returns what is to be done after each step that the policy drives.
    """

    network: Network
    begin_s: int
    decision_s: int
    n_decisions: int
    instead: Controller
    instead_in_words: str
    peer: Controller
    peer_in_words: str
    open: Callable[[bool], Environment]
    watch: Callable[[Client], AfterStep]


class OwnQueues:
    """Greedy control by what each junction itself observes, for any network."""

    def __init__(self, file: NetworkFile) -> None:
        self._rule = ByQueues(file, pressure=False)
        self._junctions = {each.id: each for each in file.junctions}

    def reset(self) -> None:
        """Do nothing: nothing is kept between decisions."""

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        phases: dict[str, int] = {}
        vehicles: dict[str, float] = {}
        for name, observation in observations.items():
            junction = self._junctions[name]
            n_phases = len(junction.phases)
            phases[name] = int(np.argmax(observation[:n_phases]))
            for lane, share in zip(junction.lanes, observation[n_phases + 1 :], strict=True):
                vehicles[lane.id] = float(share) * lane.capacity
        return self._rule.act(phases, lambda lane: vehicles.get(lane, 0.0))


def stage_of(options: argparse.Namespace) -> Stage:
    """Return what the command line asks for.

    Raises:
        InvalidNetworkError, InvalidScenarioError: a city's files cannot be used.
    """
    if options.network is None:
        begin_s = BEGIN_S if options.begin is None else options.begin
        return shipped(Scenario(begin_s=begin_s, duration_s=options.seconds or SECONDS))
    return city(scenario_of(options))


def shipped(scenario: Scenario) -> Stage:
    """Return the shipped network; the flow of its junctions is forecast while the policy drives."""
    roads = read_network()
    return Stage(
        SHIPPED,
        scenario.begin_s,
        DECISION_S,
        scenario.n_decisions,
        instead=FixedTime(roads, scenario),
        instead_in_words="by the fixed-time plan",
        peer=FixedTime(roads, scenario),
        peer_in_words="fixed time",
        open=lambda by_policy: TrafficEnvironment(scenario, roads),
        watch=lambda client: FlowForecasts(client, Detectors(roads)).after_step,
    )


def city(scenario: CityScenario) -> Stage:
    """Return a city; the policy is compared with the programs of its net."""
    return Stage(
        network_of(scenario.network),
        scenario.begin_s,
        scenario.decision_s,
        -(-(scenario.end_s - scenario.begin_s) // scenario.decision_s),
        instead=OwnQueues(scenario.network),
        instead_in_words="by the longest queue",
        peer=KeepPhase(),
        peer_in_words="own programs",
        open=lambda by_policy: CityEnvironment(scenario, own_programs=not by_policy),
        watch=lambda client: lambda time_s: None,
    )
