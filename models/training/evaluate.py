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
from collections.abc import Iterator
from concurrent.futures import as_completed
from dataclasses import replace
from pathlib import Path

import torch
from tqdm import tqdm

from models.atomic_write import atomic_write
from models.policy.form import SHIPPED_POLICY, InvalidPolicyFileError
from models.simulation.controllers import Controller, PolicyController
from models.simulation.episode import run_episode
from models.simulation.road_network import read_network
from models.training.evaluation_jobs import (
    PEERS,
    SAFE_PLAN_BY_CLOCK,
    SAFE_POLICY,
    Job,
    first_seeds,
    plan_jobs,
    plan_progress,
    version_of,
)
from models.training.evaluation_report import REPORTS, Run, write_report
from models.training.imitate import IMITATION_POLICY
from models.training.outage_levels import outage_runs, with_outage
from models.training.processes import make_pool
from models.training.strains import STRAINS
from models.training.traffic_levels import PROGRESS_SEEDS, TEST_LEVELS, TEST_SEEDS

RUNS_FILE = REPORTS / "policy_runs.csv"


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
    missing = {_key(job): job for job in jobs if _key(job) not in runs}.values()
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
    with atomic_write(file) as whole:
        whole.write(rows.getvalue().encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--policy", type=Path, default=SHIPPED_POLICY, help="file to evaluate")
    parser.add_argument("--seeds", type=int, default=len(TEST_SEEDS), help="how many, from 1 on")
    parser.add_argument(
        "--progress-seeds",
        type=int,
        default=len(PROGRESS_SEEDS),
        help="how many, from 1 on, to compare the policy with its interim weights",
    )
    parser.add_argument(
        "--strains",
        action="store_true",
        help="make only the runs with detectors that fail or traffic that goes other ways",
    )
    parser.add_argument("--only", nargs="+", help="make these controllers' runs, and no report")
    parser.add_argument("--runs", type=Path, default=RUNS_FILE, help="CSV file of all runs")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    for name in ("seeds", "progress_seeds", "workers"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name.replace('_', '-')} {getattr(arguments, name)} is less than 1")
    try:
        policies = {"policy": arguments.policy}
        if version_of(arguments.policy) != version_of(IMITATION_POLICY):
            policies = {"imitation": IMITATION_POLICY} | policies
        jobs = plan_jobs(policies, first_seeds(arguments.seeds))
        progress = plan_progress(policies, first_seeds(arguments.progress_seeds))
    except InvalidPolicyFileError as error:
        sys.exit(str(error))
    if arguments.strains:
        jobs, progress = [job for job in jobs if job.level in STRAINS], []
    if arguments.only:
        jobs = [job for job in jobs if job.controller in arguments.only]
        progress = [job for job in progress if job.controller in arguments.only]
    runs = evaluate([*jobs, *progress], arguments.runs, arguments.workers)
    if not arguments.only and not arguments.strains:
        write_report(runs[: len(jobs)], progress=runs[len(jobs) :])
        tqdm.write(f"Tables and plots: {REPORTS / 'policy.md'}")


if __name__ == "__main__":
    main()
