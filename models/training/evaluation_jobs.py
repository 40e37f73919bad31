"""Which runs an evaluation is made of: controllers, levels of traffic, and seeds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from models.policy.network import read_state_dict
from models.signals.clock_plan import SAFE_PLAN, SHIPPED_PLAN, read_plan
from models.simulation.controllers import Controller, KeepPhase, MaxPressure, RandomPhases
from models.simulation.environment import Scenario
from models.simulation.fixed_time import FixedTime
from models.simulation.outages import ByClock
from models.simulation.road_network import RoadNetwork
from models.training.kept_runs import digest
from models.training.outage_levels import OUTAGE_LEVEL, PLAN, outage_runs
from models.training.strains import STRAINS
from models.training.traffic_levels import TEST_LEVELS, TEST_SEEDS

MakeController = Callable[[RoadNetwork, Scenario, int], Controller]

SAFE_POLICY, SAFE_PLAN_BY_CLOCK = "policy behind the safety layer", "plan behind the safety layer"
PEERS: dict[str, MakeController] = {
    "random": lambda network, scenario, seed: RandomPhases(seed),
    "fixed time": lambda network, scenario, seed: FixedTime(network, scenario),
    "actuated": lambda network, scenario, seed: KeepPhase(),
    "max pressure": lambda network, scenario, seed: MaxPressure(network),
    SAFE_PLAN_BY_CLOCK: lambda network, scenario, seed: ByClock(
        read_plan(SAFE_PLAN), scenario.begin_s
    ),
}


class Job(NamedTuple):
    """A run to make; the policy is a file, empty for the other controllers."""

    controller: str
    policy: str
    version: str
    level: str
    seed: int


def plan_jobs(policies: dict[str, Path], seeds: range) -> list[Job]:
    """Every controller at every level with every seed; complete seed by seed.

    Raises:
        InvalidPolicyFileError: a policy's file cannot be used.
    """
    policies = policies | {SAFE_POLICY: policies["policy"]}
    versions = {name: version_of(path) for name, path in policies.items()}
    jobs = [
        Job(name, str(policies.get(name, "")), versions.get(name, ""), level, seed)
        for seed in seeds
        for level in TEST_LEVELS
        for name in (*PEERS, *policies)
    ]
    alone, with_plan = versions["policy"], f"{versions['policy']} {digest(SHIPPED_PLAN)}"
    jobs += [
        Job(name, str(policies["policy"]), version, OUTAGE_LEVEL, seed)
        for seed in seeds
        for name in outage_runs()
        for version in [with_plan if name.endswith(PLAN) else alone]
    ]
    return jobs + [
        Job(name, str(policies.get(name, "")), versions.get(name, ""), level, seed)
        for seed in seeds
        for level, strain in STRAINS.items()
        for name in strain.controllers
        if name in policies or name in PEERS
    ]


def plan_progress(policies: dict[str, Path], seeds: range) -> list[Job]:
    """Let the policy and the weights that its training began with meet the same traffic.

    Raises:
        InvalidPolicyFileError: a policy's file cannot be used.
    """
    versions = {name: version_of(path) for name, path in policies.items()}
    return [
        Job(name, str(path), versions[name], level, seed)
        for seed in seeds
        for level in TEST_LEVELS
        for name, path in policies.items()
    ]


def version_of(path: Path) -> str:
    read_state_dict(path)
    return digest(path)


def first_seeds(number: int) -> range:
    """Return the first of the seeds that no training saw."""
    return range(TEST_SEEDS.start, TEST_SEEDS.start + number)
