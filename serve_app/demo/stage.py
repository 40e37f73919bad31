"""What the demo simulates: the shipped network at a time of day, or any city with its traffic."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from greenwave.client import Client
from lab.sim.controllers import Control, LongestQueue, observed_vehicles
from lab.sim.daily_demand import DailyDemand
from lab.sim.detectors import Detectors
from lab.sim.environment import layers_of
from lab.sim.observation import Observation
from lab.sim.options import scenario_of
from lab.sim.programs import own_programs
from lab.sim.scenario import DECISION_S, Counts, Scenario
from lab.sim.shipped import MORNING_RUSH_S, shipped_demand, shipped_scenario
from lab.sim.webster import FixedTime
from models.networks.form import NetworkFile
from models.networks.shipped import SHIPPED
from serve_app.demo.flow_forecasts import FlowForecasts

SECONDS = 3600  # of the shipped network

AfterStep = Callable[[int], None]


@dataclass(frozen=True)
class Stage:
    """A scenario, and who else controls its signals.

    Attributes:
        peer: whom the policy is compared with; ``peer_in_words`` says who that is.
        watch: returns what is to be done after each step that the policy drives.
    """

    scenario: Scenario
    peer: Control
    peer_in_words: str
    watch: Callable[[Client], AfterStep]


class OwnQueues:
    """Greedy control by what each junction itself observes, for any network."""

    def __init__(self, file: NetworkFile) -> None:
        self._file = file
        self._rule = LongestQueue(file)

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        phases = {
            each.id: int(np.argmax(observations[each.id][: len(each.phases)]))
            for each in self._file.junctions
            if each.id in observations
        }
        vehicles = observed_vehicles(self._file, observations)
        return self._rule.decide(phases, lambda lane: vehicles.get(lane, 0.0))


def stage_of(options: argparse.Namespace) -> Stage:
    """Return what the command line asks for.

    Raises:
        InvalidNetworkError, InvalidScenarioError: a city's files cannot be used.
    """
    options = argparse.Namespace(**{**vars(options), "counts": options.counts or "standing"})
    if options.network is None:
        begin_s = MORNING_RUSH_S if options.begin is None else options.begin
        return shipped(shipped_demand(begin_s, options.seconds or SECONDS), options.counts)
    return city(scenario_of(options))


def behind_safety_layer(stage: Stage) -> Stage:
    """Return the stage with the safety layer before its signals.

    Raises:
        InvalidScenarioError: the network file lacks what the layer needs.
    """
    scenario = replace(stage.scenario, guarded=True)
    layers_of(scenario)
    return replace(stage, scenario=scenario)


def shipped(demand: DailyDemand, counts: Counts = "standing") -> Stage:
    """Return the shipped network; the flow of its junctions is forecast while the policy drives."""
    scenario = replace(shipped_scenario(demand), counts=counts)
    return Stage(
        scenario,
        peer=lambda environment: FixedTime(demand, SHIPPED.ids, DECISION_S),
        peer_in_words="fixed time",
        watch=lambda client: FlowForecasts(client, Detectors(scenario)).after_step,
    )


def city(scenario: Scenario) -> Stage:
    """Return a city; the policy is compared with the programs of its net."""
    return Stage(
        scenario,
        peer=own_programs(scenario),
        peer_in_words="own programs",
        watch=lambda client: lambda time_s: None,
    )
