"""What the shipped network's policy is evaluated in: levels of traffic, faults, and controllers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lab.evaluate.kept_runs import digest
from lab.sim.controllers import (
    GREEDY,
    GUARDED,
    Control,
    Controller,
    FixedPhase,
    PlanByClock,
    PolicyController,
    QueueController,
    QueueRule,
    RandomPhases,
)
from lab.sim.daily_demand import HOUR_S, DailyDemand
from lab.sim.diagnosed import Diagnosed
from lab.sim.faults import WithLosses, WithOutage
from lab.sim.fixed_time import FixedTime
from lab.sim.layouts import LAYOUTS, with_detectors
from lab.sim.programs import actuated
from lab.sim.scenario import Scenario
from lab.sim.shipped import (
    DECISION_S,
    MORNING_RUSH_S,
    shipped_demand,
    shipped_scenario,
    with_breakdown,
)
from models.networks.shipped import NETWORK_FILE, SHIPPED
from models.policy.file import read_weights
from models.policy.form import SHIPPED_SAFE_POLICY
from models.policy.step import PolicyStep
from models.policy.training_record import read_record
from models.signals.clock_plan import SAFE_PLAN, SHIPPED_PLAN, read_plan

TEST_SEEDS = range(1, 21)  # no training and no validation has them

EVENING_RUSH_S = 17 * HOUR_S
POLICY = "policy"
CYCLIC = " in cyclic order"
GUARDED_POLICY, GUARDED_PLAN = f"{POLICY}{GUARDED}", f"plan{GUARDED}"
SAFE_POLICY = f"{POLICY} trained{GUARDED}"
DIAGNOSED_POLICY = f"{POLICY} with diagnosis"
OBSERVING = ("longest queue", POLICY)  # controllers that depend on the junctions' detectors

MakeScenario = Callable[[int], Scenario]


def _hour(begin_s: int, scale: float = 1.0, unusual: int | None = None) -> Scenario:
    return shipped_scenario(shipped_demand(begin_s, scale=scale, unusual=unusual))


def _broken(reads: float, seed: int) -> Scenario:
    return replace(_hour(MORNING_RUSH_S), detector_reads=reads)


RUSH_HOUR = "rush hour, 7:30"
# The scenario of a seed; the place of the incident is drawn, so its scenario depends on the seed.
LEVELS: Mapping[str, MakeScenario] = {
    "low, 21:00": lambda seed: _hour(21 * HOUR_S),
    "medium, 12:00": lambda seed: _hour(12 * HOUR_S),
    RUSH_HOUR: lambda seed: _hour(MORNING_RUSH_S),
    "over-saturated, 7:30 and a quarter more": lambda seed: _hour(MORNING_RUSH_S, 1.25),
    "incident, 17:00 and a closed lane": lambda seed: with_breakdown(
        shipped_demand(EVENING_RUSH_S), np.random.default_rng(seed)
    ),
}


def _detected(level: str, layout: str | None, seed: int) -> Scenario:
    scenario = LEVELS[level](seed)
    return scenario if layout is None else with_detectors(scenario, layout)


# Each level with all vehicles known, and as each layout of detectors shows them.
DETECTED: Mapping[str, MakeScenario] = {
    level if layout is None else f"{level}, {layout}": partial(_detected, level, layout)
    for level in (RUSH_HOUR, "medium, 12:00")
    for layout in (None, *LAYOUTS)
}


# A detector that is silent, or stuck on, at one lane of each junction.
BROKEN: Mapping[str, MakeScenario] = {
    f"rush hour, one lane of each junction reads {words}": partial(_broken, reads)
    for words, reads in (("empty", 0.0), ("half full", 0.5))
}
# What the diagnosis of detectors costs while all work, and saves where some are broken.
HEALTHY = "low, 21:00", "medium, 12:00", RUSH_HOUR
DIAGNOSED: Mapping[str, MakeScenario] = {each: LEVELS[each] for each in HEALTHY} | dict(BROKEN)
DIAGNOSED_SEEDS = 10


class Stress(NamedTuple):
    """Failing detectors, other routes or other hours, and the controllers to run in them.

    Fixed time observes nothing, and SUMO's actuated controls have their own detectors.
    """

    scenario: MakeScenario
    controllers: tuple[str, ...]


_BARE = "actuated", "delay-based", POLICY
_IN_OTHER_HOURS = *_BARE, *(f"{each}{GUARDED}" for each in _BARE[:2]), SAFE_POLICY
STRESS: Mapping[str, Stress] = {
    **{level: Stress(scenario, OBSERVING) for level, scenario in BROKEN.items()},
    "medium, 12:00, other turns and entries": Stress(
        lambda seed: _hour(12 * HOUR_S, unusual=seed),
        ("fixed time", "actuated", "delay-based", *OBSERVING),
    ),
    "rush hour, 7:30, other turns and entries": Stress(
        lambda seed: _hour(MORNING_RUSH_S, unusual=seed),
        ("fixed time", "actuated", "delay-based", *OBSERVING),
    ),
    # No validation has these hours, and nothing was chosen by them.
    "another hour, 6:40": Stress(lambda seed: _hour(400 * 60), _IN_OTHER_HOURS),
    "another hour, 8:20 and a tenth more": Stress(
        lambda seed: _hour(500 * 60, 1.1), _IN_OTHER_HOURS
    ),
}

SCENARIOS: Mapping[str, MakeScenario] = {
    **LEVELS,
    **DETECTED,
    **{level: stress.scenario for level, stress in STRESS.items()},
}


def _fixed_time(scenario: Scenario) -> Controller:
    if not isinstance(scenario.demand, DailyDemand):
        raise TypeError("fixed times are designed for a daily demand")
    return FixedTime(scenario.demand, SHIPPED.ids, scenario.decision_s)


def _plan(scenario: Scenario, path: Path) -> Controller:
    return PlanByClock(read_plan(path, SHIPPED), scenario.begin_s, scenario.decision_s)


# Without hysteresis, light traffic makes signals change all the time, and each change costs yellow.
OBSERVED_QUEUES = QueueRule(None, shared=False, yielding=1.0, hysteresis=1.0)

MakePeer = Callable[[Scenario, int], Control]
UNGUARDED: Mapping[str, MakePeer] = {
    "random": lambda scenario, seed: lambda environment: RandomPhases(SHIPPED, seed),
    "fixed time": lambda scenario, seed: lambda environment: _fixed_time(scenario),
    "actuated": lambda scenario, seed: actuated(scenario, "actuated", begin_at_minimum=True),
    "delay-based": lambda scenario, seed: actuated(scenario, "delay_based", begin_at_minimum=True),
    "longest queue": lambda scenario, seed: partial(QueueController, OBSERVED_QUEUES),
}
PEERS: Mapping[str, MakePeer] = {
    **UNGUARDED,
    **{
        f"{each}{GUARDED}": UNGUARDED[each] for each in ("actuated", "delay-based", "longest queue")
    },
    GUARDED_PLAN: lambda scenario, seed: lambda environment: _plan(scenario, SAFE_PLAN),
}
# Greedy counts all vehicles, so the policy is not compared with it elsewhere.
MORE_PEERS: Mapping[str, MakePeer] = dict.fromkeys(
    ("greedy", f"greedy{GUARDED}"), lambda scenario, seed: partial(QueueController, GREEDY)
)
# What is lost by having only some detectors.
DETECTING = (POLICY, "longest queue", "greedy")
# What the phases' cyclic order costs.
ORDERED = tuple(
    f"{each}{order}{guard}"
    for guard in ("", GUARDED)
    for each in (POLICY, "longest queue", "greedy")
    for order in ("", CYCLIC)
)
COMPARED = sorted(
    (*PEERS, POLICY, GUARDED_POLICY, SAFE_POLICY), key=lambda each: each.endswith(GUARDED)
)

# What is lost of the policy, and what answers instead; the policy is made anew after an outage.
RED, PLAN = "RED", "plan"
FALLBACKS: Mapping[str, Callable[[Scenario], Controller]] = {
    RED: lambda scenario: FixedPhase(),
    PLAN: lambda scenario: _plan(scenario, SHIPPED_PLAN),
}
MakePolicy = Callable[[], Controller]
OUTAGES: Mapping[str, Callable[[MakePolicy, Controller, int], Controller]] = {
    "1 % of answers lost": lambda policy, fallback, seed: WithLosses(
        policy(), fallback, 0.01, seed
    ),
    "10 % of answers lost": lambda policy, fallback, seed: WithLosses(
        policy(), fallback, 0.1, seed
    ),
    "dead for five minutes": lambda policy, fallback, seed: WithOutage(
        policy, fallback, 600, 900, DECISION_S
    ),
    "dead all the time": lambda policy, fallback, seed: fallback,
}
OUTAGE_RUNS = [f"{outage}, {fallback}" for outage in OUTAGES for fallback in FALLBACKS]


class Job(NamedTuple):
    """A run to make.

    Attributes:
        policy: file of its weights, empty for the other controllers.
        version: digest of what the controller is made from.
    """

    controller: str
    policy: str
    version: str
    level: str
    seed: int

    @property
    def scenario(self) -> Scenario:
        guarded, cyclic = self.controller.endswith(GUARDED), CYCLIC in self.controller
        scenario = replace(SCENARIOS[self.level](self.seed), guarded=guarded, cyclic=cyclic)
        return replace(scenario, counts=read_record(Path(self.policy)).counts)

    def control(self, scenario: Scenario) -> Control:
        if not self.policy:
            peer = self.controller.replace(CYCLIC, "")
            return (PEERS.get(peer) or MORE_PEERS[peer])(scenario, self.seed)
        step = PolicyStep.load(Path(self.policy), SHIPPED)
        policy = partial(PolicyController, step, SHIPPED)
        if self.controller == DIAGNOSED_POLICY:
            return lambda environment: Diagnosed(policy(), SHIPPED)
        outage, _, fallback = self.controller.rpartition(", ")
        if outage not in OUTAGES:
            return lambda environment: policy()
        instead = FALLBACKS[fallback](scenario)
        return lambda environment: OUTAGES[outage](policy, instead, self.seed)


def plan_jobs(policy: Path, seeds: range, safe_policy: Path = SHIPPED_SAFE_POLICY) -> list[Job]:
    """Return every controller at every level with every seed; complete seed by seed.

    Args:
        safe_policy: one that was trained behind the safety layer.

    Raises:
        InvalidPolicyFileError: a policy's file cannot be used.
    """
    for path in (policy, safe_policy):
        read_weights(path, SHIPPED)
    version = digest(policy)
    safe = Job(SAFE_POLICY, str(safe_policy), digest(safe_policy), "", 0)

    def job(controller: str, level: str, seed: int) -> Job:
        if controller in PEERS:
            return Job(controller, "", "", level, seed)
        if controller == SAFE_POLICY:
            return safe._replace(level=level, seed=seed)
        also = {DIAGNOSED_POLICY: NETWORK_FILE}.get(
            controller, SHIPPED_PLAN if controller.endswith(PLAN) else None
        )
        made_from = version if also is None else f"{version} {digest(also)}"
        return Job(controller, str(policy), made_from, level, seed)

    return [
        *(job(name, level, seed) for seed in seeds for level in LEVELS for name in COMPARED),
        *(job(name, RUSH_HOUR, seed) for seed in seeds for name in OUTAGE_RUNS),
        *(
            job(name, level, seed)
            for seed in seeds
            for level, stress in STRESS.items()
            for name in stress.controllers
        ),
        *(
            job(DIAGNOSED_POLICY, each, seed)
            for seed in seeds[:DIAGNOSED_SEEDS]
            for each in DIAGNOSED
        ),
    ]


def plan_variants(
    policy: Path, seeds: range, controllers: Sequence[str], levels: Iterable[str]
) -> list[Job]:
    """Return these controllers at these levels with every seed; complete seed by seed.

    Raises:
        InvalidPolicyFileError: the policy's file cannot be used.
    """
    read_weights(policy, SHIPPED)
    of_policy = str(policy), digest(policy)
    return [
        Job(name, *(of_policy if name.startswith(POLICY) else ("", "")), level, seed)
        for seed in seeds
        for level in levels
        for name in controllers
    ]
