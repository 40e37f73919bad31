"""The runs of a comparison: every controller with every seed on one city, each kept as a file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from models.networks.file import network_as_json
from models.simulation.city.episode import CONTROLLERS
from models.simulation.city.policy import by_policy
from models.simulation.city.scenario import CityScenario
from models.simulation.metrics import Metrics
from models.training.comparison.checks import check_policy, check_routes, check_signals
from models.training.kept_runs import make_runs, read_run

CLASSIC = ("fixed time", "Webster", "actuated", "delay-based", "max pressure", "greedy")
POLICY = "policy"
RULES = ("begin_s", "end_s", "decision_s", "yellow_s", "all_red_s", "min_green_s", "counts")


@dataclass(frozen=True)
class CityRun:
    """How one run went; times are means in seconds per vehicle of the demand.

    Attributes:
        delay_s: time loss and wait to depart, as RESCO has it; who never departed waits until the
            end.
        queues: by junction, mean number of standing vehicles on its incoming lanes.
    """

    controller: str
    seed: int
    delay_s: float
    waiting_s: float
    trip_s: float
    demanded: int
    arrived: int
    queues: Mapping[str, float]


@dataclass(frozen=True)
class Comparison:
    """What is compared.

    Attributes:
        policy: a file in the form of :mod:`models.policy.form`, if one is compared.
        seeds: of SUMO; none may have been seen by the policy's training.
    """

    scenario: CityScenario
    policy: Path | None
    seeds: range

    @property
    def controllers(self) -> tuple[str, ...]:
        return CLASSIC if self.policy is None else (*CLASSIC, POLICY)

    @cached_property
    def same(self) -> dict[str, str]:
        """Return what tells a kept run of this traffic and these rules from one of others."""
        scenario = self.scenario
        digest = hashlib.blake2b(network_as_json(scenario.network).encode(), digest_size=8)
        for path in (scenario.net, *scenario.routes, *scenario.additional):
            digest.update(hashlib.blake2b(path.read_bytes()).digest())
        digest.update(repr([getattr(scenario, name) for name in RULES]).encode())
        return {"sumo": version("eclipse-sumo"), "city": digest.hexdigest()}

    def files(self, folder: Path) -> dict[Path, tuple[str, int]]:
        """Return controller and seed of each run, by the file that keeps it."""
        names = {each: each.replace(" ", "_") for each in self.controllers}
        if self.policy is not None:  # another policy has runs of its own
            weights = hashlib.blake2b(self.policy.read_bytes(), digest_size=8)
            names[POLICY] += f"-{weights.hexdigest()}"
        return {
            folder / f"{name}-{seed}.json": (controller, seed)
            for controller, name in names.items()
            for seed in self.seeds
        }


def compare(comparison: Comparison, folder: Path, workers: int) -> list[CityRun]:
    """Make the runs that the folder lacks; returns all, by controller and seed.

    Raises:
        InvalidNetworkError, InvalidScenarioError, InvalidPolicyFileError: the files do not fit.
    """
    check_signals(comparison.scenario)
    if comparison.policy is not None:
        check_policy(comparison.scenario, comparison.policy)
    files, same = comparison.files(folder), comparison.same
    if any(read_run(path, same) is None for path in files):
        check_routes(comparison.scenario)
    jobs = {path: partial(_run, comparison, *cell, same) for path, cell in files.items()}
    fields = CityRun.__dataclass_fields__
    return [
        CityRun(**{name: run[name] for name in fields})
        for run in make_runs(jobs, same, workers).values()
    ]


def _run(
    comparison: Comparison, controller: str, seed: int, same: Mapping[str, str]
) -> dict[str, Any]:
    if controller == POLICY and comparison.policy is not None:
        metrics = by_policy(comparison.scenario, seed, comparison.policy)
    else:
        metrics = CONTROLLERS[controller](comparison.scenario, seed)
    return asdict(_city_run(controller, seed, metrics)) | dict(same)


def _city_run(controller: str, seed: int, metrics: Metrics) -> CityRun:
    return CityRun(
        controller,
        seed,
        delay_s=round(metrics.time_loss_s, 3),
        waiting_s=round(metrics.waiting_s, 3),
        trip_s=round(metrics.travel_s, 3),
        demanded=metrics.demanded,
        arrived=metrics.arrived,
        queues={name: round(queue, 3) for name, queue in metrics.queues.items()},
    )
