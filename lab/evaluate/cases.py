"""Cases: which controllers are compared in which traffic. ``cases.toml`` lists them as data."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import time
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lab.evaluate.runs import digest
from lab.net.importing import import_network
from lab.sim.configuration import read_sumocfg
from lab.sim.controllers import (
    CONTROLS,
    AlwaysRed,
    Control,
    Controller,
    PlanByClock,
    policy_control,
)
from lab.sim.crossings import crossings_scenario
from lab.sim.daily_demand import HOUR_S, DailyDemand
from lab.sim.faults import Diagnosed, WithLosses, WithOutage
from lab.sim.layouts import with_detectors
from lab.sim.scenario import InvalidScenarioError, RouteFiles, Scenario
from lab.sim.shipped import shipped_demand, shipped_scenario, steady_profile, with_breakdown
from lab.sim.webster import FixedTime
from models.networks.network import network_of
from models.networks.shipped import NETWORK_FILE, SHIPPED
from models.policy.form import SHIPPED_POLICY
from models.policy.training_record import read_record
from models.signals.clock_plan import SAFE_PLAN, SHIPPED_PLAN, read_plan

TEST_SEEDS = range(1, 21)  # no training and no validation has them
POLICY = "policy"

WARM_UP_S, DRAIN_S = 900, 900  # around each hour of the shipped network


def _fixed_time(scenario: Scenario) -> Control:
    if not isinstance(scenario.demand, DailyDemand):
        raise TypeError("fixed times are designed for a daily demand")
    demand = scenario.demand
    return lambda environment: FixedTime(demand, SHIPPED.ids, scenario.decision_s)


def _plan(scenario: Scenario, path: Path) -> Controller:
    return PlanByClock(read_plan(path, SHIPPED), scenario.begin_s, scenario.decision_s)


CONTROLS_OF_CASES: Mapping[str, Callable[[Scenario], Control]] = CONTROLS | {
    "fixed time by the hour": _fixed_time,
    "plan": lambda scenario: lambda run: _plan(scenario, SAFE_PLAN),
}
FALLBACKS: Mapping[str, Callable[[Scenario], Controller]] = {
    "RED": lambda scenario: AlwaysRed(),
    "plan": partial(_plan, path=SHIPPED_PLAN),
}


@dataclass(frozen=True)
class Case:
    """A controller with its rules.

    Attributes:
        name: in tables and files.
        control: what decides: a name in CONTROLS_OF_CASES, or POLICY.
        guarded: whether it is behind the safety layer.
        cyclic: whether phases keep their cyclic order.
        weights: the shipped file of the policy.
        diagnosed: whether failed detectors are found and estimated.
        outage: in words, how the policy is out of reach.
        fallback: what decides then, a name in FALLBACKS.
        lost: the share of answers that are lost; 0 for an outage.
        dead_from_s, dead_until_s: of the outage, since the first decision.
    """

    name: str
    control: str
    guarded: bool = False
    cyclic: bool = False
    weights: str = SHIPPED_POLICY.name
    diagnosed: bool = False
    outage: str = ""
    fallback: str = ""
    lost: float = 0.0
    dead_from_s: int = 0
    dead_until_s: int = 0

    @property
    def is_policy(self) -> bool:
        return self.control == POLICY

    def version(self, policy: Path | None) -> str:
        """Return a digest of the files that decide."""
        if policy is None:
            return ""
        files = [policy]
        files += [NETWORK_FILE] if self.diagnosed else []
        files += [SHIPPED_PLAN] if self.fallback == "plan" else []
        return " ".join(map(digest, files))

    def ruled(self, scenario: Scenario, policy: Path | None) -> Scenario:
        """Return a scenario under the rules of the case, and with what its policy counts."""
        counts = scenario.counts if policy is None else read_record(policy).counts
        return replace(scenario, guarded=self.guarded, cyclic=self.cyclic, counts=counts)

    def make(self, scenario: Scenario, policy: Path | None) -> Control:
        """Return what controls the signals.

        Raises:
            InvalidPolicyFileError, InvalidScenarioError: the policy does not fit.
        """
        if policy is None:
            return CONTROLS_OF_CASES[self.control](scenario)
        make = policy_control(scenario, policy)
        if self.diagnosed:
            network = network_of(scenario.network)
            return lambda run: Diagnosed(make(run), network)
        if not self.fallback:
            return make
        fallback = FALLBACKS[self.fallback](scenario)
        if self.lost:
            return lambda run: WithLosses(make(run), fallback, self.lost, run.seed)
        times = self.dead_from_s, self.dead_until_s, scenario.decision_s
        return lambda run: WithOutage(partial(make, run), fallback, *times)


@dataclass(frozen=True)
class Traffic:
    """Traffic in which controllers are compared.

    Attributes:
        begin: of an hour of the shipped network; None for a map of RESCO.
        scale, breakdown, unusual: of the demand: a factor, a closed lane, other turns and entries.
        steady: whether the demand is full all the time, in the directions of the begin.
        detector_reads: what one detector of each junction reads all the time.
        detectors: a layout of detectors, from which all is estimated.
        walkers_per_hour: of each walk, where the junctions have crossings.
        decision_s, yellow_s, lead: of RESCO's maps, see :class:`.Scenario`.
        without_fault: the same traffic with working detectors.
    """

    name: str
    begin: time | None = None
    scale: float = 1.0
    breakdown: bool = False
    unusual: bool = False
    steady: bool = False
    detector_reads: float | None = None
    detectors: str | None = None
    walkers_per_hour: float | None = None
    decision_s: int = 10
    yellow_s: int = 3
    lead: float = 1.0
    without_fault: str = ""

    def scenario(self, seed: int, maps: Path | None = None) -> Scenario:
        """Return the scenario of a seed, which also draws what is unusual.

        Args:
            maps: folder of RESCO's maps.

        Raises:
            InvalidNetworkError, InvalidScenarioError: a map is not there, or cannot be driven.
        """
        if self.begin is None:
            rules = self.decision_s, self.yellow_s
            return scenario_of_map(maps or Path(), self.name, *rules)
        begin_s = HOUR_S * self.begin.hour + 60 * self.begin.minute
        unusual = seed if self.unusual else None
        profile = steady_profile(begin_s) if self.steady else None
        demand = shipped_demand(begin_s, scale=self.scale, profile=profile, unusual=unusual)
        if self.walkers_per_hour is not None:
            return crossings_scenario(demand, self.walkers_per_hour)
        if self.breakdown:
            return with_breakdown(demand, np.random.default_rng(seed))
        scenario = replace(shipped_scenario(demand), detector_reads=self.detector_reads)
        return with_detectors(scenario, self.detectors) if self.detectors else scenario


def with_margins(scenario: Scenario) -> Scenario:
    """Return a drawn hour with a town that is not empty at first, and empties at the end."""
    if not isinstance(scenario.demand, DailyDemand):
        return scenario
    begin_s = scenario.begin_s - WARM_UP_S
    return replace(
        scenario,
        demand=replace(scenario.demand, begin_s=begin_s),
        begin_s=begin_s,
        end_s=scenario.end_s + DRAIN_S,
        warm_up_s=WARM_UP_S,
        drain_s=DRAIN_S,
    )


@cache
def scenario_of_map(folder: Path, name: str, decision_s: int, yellow_s: int) -> Scenario:
    """Return a map of RESCO; a decision has some seconds, with yellow where the phase changes.

    Raises:
        InvalidScenarioError, InvalidNetworkError: it is not there, or cannot be driven.
    """
    config = folder / name / f"{name}.sumocfg"
    if not config.is_file():
        raise InvalidScenarioError(f"{config} is not there.")
    files = read_sumocfg(config)
    network, _ = import_network(files.net, name, additional=files.additional)
    routes, times = RouteFiles(files.routes), (files.begin_s, files.end_s, decision_s, yellow_s)
    return Scenario(network, files.net, routes, *times, counts="all", additional=files.additional)


class Group(NamedTuple):
    """Every controller of a group meets all its traffic, with all seeds or only some of them."""

    traffic: tuple[Traffic, ...]
    cases: tuple[Case, ...]
    seeds: int | None = None

    def cells(self) -> Iterator[tuple[Traffic, Case]]:
        return ((traffic, case) for traffic in self.traffic for case in self.cases)


def _read(path: Path) -> dict[str, dict[str, Group]]:
    data = tomllib.loads(path.read_text())
    traffic = {name: Traffic(name, **values) for name, values in data["traffic"].items()}

    def cases(study: str) -> dict[str, Case]:
        table = data["resco_controllers" if study == RESCO else "controllers"]
        return {
            name: Case(**{"name": name, "control": name, **values})
            for name, values in table.items()
        }

    return {
        study: {
            name: Group(
                tuple(traffic[each] for each in group["traffic"]),
                tuple(cases(study)[each] for each in group["controllers"]),
                group.get("seeds"),
            )
            for name, group in groups.items()
        }
        for study, groups in data["studies"].items()
    }


RESCO = "resco"
STUDIES = _read(Path(__file__).with_name("cases.toml"))
LEVELS: Mapping[str, Callable[[int], Scenario]] = {
    each.name: each.scenario for each in STUDIES[POLICY]["compared"].traffic
}


def names(parts: Iterable[Traffic | Case]) -> list[str]:
    return [each.name for each in parts]
