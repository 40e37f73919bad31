"""Compare controllers on traffic that no policy was trained on: ``make evaluate``.

Every run is a row of a CSV file and is not repeated, so a killed evaluation goes on where it was.
Runs of a policy count for its weights only.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import as_completed
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from tqdm import tqdm

from models.policy.form import SHIPPED_POLICY, InvalidPolicyFileError
from models.policy.network import read_state_dict
from models.signals.clock_plan import SAFE_PLAN, SHIPPED_PLAN, read_plan
from models.simulation.controllers import (
    Controller,
    KeepPhase,
    MaxPressure,
    PolicyController,
    RandomPhases,
)
from models.simulation.environment import Scenario
from models.simulation.episode import run_episode
from models.simulation.fixed_time import FixedTime
from models.simulation.outages import ByClock
from models.simulation.road_network import RoadNetwork, read_network
from models.training.evaluation_report import REPORTS, Run, write_report
from models.training.imitate import IMITATION_POLICY
from models.training.kept_runs import digest
from models.training.outage_levels import (
    OUTAGE_LEVEL,
    PLAN,
    outage_runs,
    with_outage,
)
from models.training.processes import make_pool
from models.training.strains import STRAINS
from models.training.traffic_levels import TEST_LEVELS, TEST_SEEDS
from models.whole_file import whole_file

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
RUNS_FILE = REPORTS / "policy_runs.csv"


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
    versions = {name: _version(path) for name, path in policies.items()}
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


def _version(path: Path) -> str:
    read_state_dict(path)
    return digest(path)


def run_job(job: Job) -> Run:
    """Simulate one run in this process."""
    torch.set_num_threads(1)
    network = read_network()
    strain = STRAINS.get(job.level)
    scenario = strain.scenario(job.seed) if strain else TEST_LEVELS[job.level](job.seed)
    if job.policy:
        controller: Controller = PolicyController.from_file(job.policy)
        if job.controller in outage_runs():
            controller = with_outage(controller, job.controller, job.seed)
    else:
        controller = PEERS[job.controller](network, scenario, job.seed)
    if strain:
        controller = strain.on(controller, job.seed)
    scenario = replace(
        scenario,
        actuated=job.controller == "actuated",
        safe=job.controller in (SAFE_POLICY, SAFE_PLAN_BY_CLOCK),
    )
    metrics = run_episode(controller, scenario, job.seed, network)
    return Run(
        controller=job.controller,
        version=job.version,
        level=job.level,
        seed=job.seed,
        time_loss_s=round(metrics.time_loss_s, 3),
        waiting_s=round(metrics.waiting_s, 3),
        travel_s=round(metrics.travel_s, 3),
        arrived=metrics.arrived,
        demanded=metrics.demanded,
        queue=round(sum(metrics.queues.values()), 3),
    )


def evaluate(jobs: list[Job], file: Path, workers: int) -> list[Run]:
    """Make the runs that the file lacks; returns those of the jobs, in their order."""
    runs = {_key(run): run for run in read_runs(file)}
    missing = [job for job in jobs if _key(job) not in runs]
    with make_pool(workers) as pool:
        running = [pool.submit(run_job, job) for job in missing]
        for future in tqdm(as_completed(running), total=len(running), unit="run"):
            run = future.result()
            runs[_key(run)] = run
            write_runs(file, list(runs.values()))
    return [runs[_key(job)] for job in jobs]


def _key(run: Job | Run) -> tuple[str, str, str, int]:
    return run.controller, run.version, run.level, run.seed


def read_runs(file: Path) -> Iterator[Run]:
    if file.exists():
        with file.open(newline="", encoding="utf-8") as rows:
            for row in csv.DictReader(rows):
                yield Run.from_strings(row)


def write_runs(file: Path, runs: list[Run]) -> None:
    """Write all or nothing, ordered so that the same runs make the same file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    writer.writerow(Run._fields)
    writer.writerows(sorted(runs))
    with whole_file(file) as whole:
        whole.write(rows.getvalue().encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--policy", type=Path, default=SHIPPED_POLICY, help="file to evaluate")
    parser.add_argument("--seeds", type=int, default=len(TEST_SEEDS), help="how many, from 1 on")
    parser.add_argument("--strains", action="store_true", help="make what no training had only")
    parser.add_argument("--only", nargs="+", help="make these controllers' runs, and no report")
    parser.add_argument("--runs", type=Path, default=RUNS_FILE, help="CSV file of all runs")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    try:
        policies = {"policy": arguments.policy}
        if _version(arguments.policy) != _version(IMITATION_POLICY):
            policies = {"imitation": IMITATION_POLICY} | policies
        jobs = plan_jobs(policies, range(TEST_SEEDS.start, TEST_SEEDS.start + arguments.seeds))
    except InvalidPolicyFileError as error:
        sys.exit(str(error))
    if arguments.strains:
        jobs = [job for job in jobs if job.level in STRAINS]
    if arguments.only:
        jobs = [job for job in jobs if job.controller in arguments.only]
    runs = evaluate(jobs, arguments.runs, arguments.workers)
    if not arguments.only and not arguments.strains:
        write_report(runs)
        tqdm.write(f"Tables and plots: {REPORTS / 'policy.md'}")


if __name__ == "__main__":
    main()
