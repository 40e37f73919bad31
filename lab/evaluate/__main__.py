"""Evaluate a policy of the shipped network beside its peers: ``make evaluate``.

Every run is a row of a CSV file and is not repeated, so a killed evaluation can be resumed.
Runs of a policy count for its weights only.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from tqdm import tqdm

from lab.evaluate.cases import (
    DETECTED,
    DETECTING,
    LEVELS,
    ORDERED,
    STRESS,
    TEST_SEEDS,
    Job,
    plan_jobs,
    plan_variants,
)
from lab.evaluate.kept_runs import make_runs
from lab.evaluate.report import (
    REPORTS,
    Run,
    detector_table,
    write_order_report,
    write_report,
)
from lab.evaluate.run_job import SAME, run_job
from lab.sim.options import add_renamed
from models.atomic_write import atomic_write
from models.policy.form import SHIPPED_POLICY, SHIPPED_SAFE_POLICY, InvalidPolicyFileError

RUNS_FILE = REPORTS / "policy_runs.csv"
UNFINISHED = Path(__file__).parents[2] / "reports" / "evaluation"


def evaluate(jobs: Sequence[Job], file: Path, folder: Path, workers: int) -> list[Run]:
    """Make the runs that the file lacks; returns those of the jobs, in their order.

    Args:
        folder: where runs are kept until all are made.
    """
    runs = {_key(run): run for run in read_runs(file)}
    missing = {
        folder / _file_name(job): partial(run_job, job) for job in jobs if _key(job) not in runs
    }
    for made in make_runs(missing, SAME, workers).values():
        run = Run(**{name: made[name] for name in Run._fields})
        runs[_key(run)] = run
    if missing:
        write_runs(file, list(runs.values()))
    return [runs[_key(job)] for job in jobs]


def _key(run: Job | Run) -> tuple[str, str, str, int]:
    return run.controller, run.version, run.level, run.seed


def _file_name(job: Job) -> str:
    words = f"{job.level}-{job.controller}-{job.version}-{job.seed}"
    return "".join(each if each.isalnum() else "_" for each in words) + ".json"


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
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--policy", type=Path, default=SHIPPED_POLICY, help="file to evaluate")
    parser.add_argument(
        "--safe-policy",
        type=Path,
        default=SHIPPED_SAFE_POLICY,
        help="file that was trained behind the safety layer, to evaluate there",
    )
    parser.add_argument("--seeds", type=int, default=len(TEST_SEEDS), help="how many, from 1 on")
    parser.add_argument(
        "--stress",
        action="store_true",
        help="make only the runs with failing detectors, other routes or other hours",
    )
    parser.add_argument(
        "--cyclic",
        action="store_true",
        help="make only the runs with and without the phases' cyclic order, and their table",
    )
    parser.add_argument(
        "--detectors",
        action="store_true",
        help="make only the runs that observe by some detectors, and print their table",
    )
    parser.add_argument("--only", nargs="+", help="make these controllers' runs, and no report")
    parser.add_argument("--runs", type=Path, default=RUNS_FILE, help="CSV file of all runs")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    add_renamed(parser, "--strains", "--stress")
    options = parser.parse_args()
    for name in ("seeds", "workers"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} {getattr(options, name)} is less than 1")
    try:
        seeds = range(TEST_SEEDS.start, TEST_SEEDS.start + options.seeds)
        if options.cyclic:
            jobs = plan_variants(options.policy, seeds, ORDERED, LEVELS)
        elif options.detectors:
            jobs = plan_variants(options.policy, seeds, DETECTING, DETECTED)
        else:
            jobs = plan_jobs(options.policy, seeds, options.safe_policy)
    except InvalidPolicyFileError as error:
        sys.exit(str(error))
    if options.stress:
        jobs = [job for job in jobs if job.level in STRESS]
    if options.only:
        jobs = [job for job in jobs if job.controller in options.only]
    runs = evaluate(jobs, options.runs, UNFINISHED, options.workers)
    if options.only:
        return
    if options.cyclic:
        write_order_report(runs)
    elif options.detectors:
        tqdm.write(detector_table(runs))
    elif not options.stress:
        write_report(runs)
        tqdm.write(f"Tables and plots: {REPORTS / 'policy.md'}")


if __name__ == "__main__":
    main()
