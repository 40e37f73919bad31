"""Compare controllers with the policies of this project: ``make evaluate ARGS="STUDY"``.

Every run is a row of a CSV file and is not repeated, so a killed evaluation can be resumed.
Runs of a policy count for its weights only.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from lab.evaluate import resco
from lab.evaluate.cases import POLICY, RESCO, STUDIES, TEST_SEEDS
from lab.evaluate.jobs import evaluate, plan_jobs
from lab.evaluate.report import (
    capacity_table,
    detector_table,
    persons_table,
    write_order_report,
    write_policy_report,
)
from lab.evaluate.runs import Run, read_runs, write_runs
from lab.sim.scenario import InvalidScenarioError
from models.atomic_write import check_writable
from models.networks.file import InvalidNetworkError
from models.policy.form import SHIPPED_POLICY, InvalidPolicyFileError

ROOT = Path(__file__).parents[2]
UNFINISHED, POLICIES = ROOT / "reports/evaluation", ROOT / "models/weights/resco"
RUNS_FILE, RESCO_FILE = ROOT / "models/reports/policy_runs.csv", ROOT / "docs/resco.csv"
COLUMNS = (
    *("controller", "version", "traffic", "seed", "delay_s", "waiting_s", "trip_s"),
    *("arrived", "served", "demanded", "queue"),
)
WALKED = "walks", "walk_delay_s", "walk_delay_95_s", "walk_delay_longest_s", "walk_red_s"


class Study(NamedTuple):
    """How a study is reported.

    Attributes:
        report: of its runs; writes beside the CSV, which it gets, too, or prints.
    """

    file: Path
    columns: Sequence[str]
    report: Callable[[list[Run], Path], None]
    seeds: int = len(TEST_SEEDS)


def _report_resco(runs: list[Run], file: Path) -> None:
    """Report all runs of the file, but those of files that have been replaced, which leave it."""
    versions = {(run.traffic, run.controller): run.version for run in runs}
    kept = [
        run
        for run in read_runs(file)
        if versions.get((run.traffic, run.controller), run.version) == run.version
    ]
    write_runs(file, kept, resco.COLUMNS)
    resco.write_report(kept, file.with_suffix(".md"))


REPORTED = {
    POLICY: Study(RUNS_FILE, COLUMNS, lambda runs, file: write_policy_report(runs, file.parent)),
    "cyclic": Study(
        RUNS_FILE, COLUMNS, lambda runs, file: write_order_report(runs, file.parent), seeds=5
    ),
    "detectors": Study(
        RUNS_FILE, COLUMNS, lambda runs, file: tqdm.write(detector_table(runs)), seeds=5
    ),
    "capacity": Study(
        RUNS_FILE, COLUMNS, lambda runs, file: tqdm.write(capacity_table(runs)), seeds=3
    ),
    "persons": Study(
        ROOT / "reports/persons.csv",
        (*COLUMNS, *WALKED),
        lambda runs, file: tqdm.write(persons_table(runs)),
        seeds=5,
    ),
    RESCO: Study(RESCO_FILE, resco.COLUMNS, _report_resco, seeds=10),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lab.evaluate", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("study", nargs="?", choices=STUDIES, default=POLICY)
    parser.add_argument(
        "--policy",
        type=Path,
        help="file to evaluate in place of the shipped one with such a record, or RESCO's folder",
    )
    parser.add_argument("--maps", type=Path, help="folder with a folder of each map of RESCO")
    parser.add_argument("--seeds", type=int, help="how many, from 1 on")
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        help="make the runs of these controllers, or in this traffic; the report needs all, but"
        " RESCO's has what is there",
    )
    parser.add_argument("--runs", type=Path, help="CSV file of all runs; the report is beside it")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    chosen = REPORTED[options.study]
    n_seeds = chosen.seeds if options.seeds is None else options.seeds
    for name, number in (("seeds", n_seeds), ("workers", options.workers)):
        if number < 1:
            parser.error(f"--{name} {number} is less than 1")
    is_resco = options.study == RESCO
    if is_resco and options.maps is None:
        parser.error("name the folder of RESCO's maps with --maps")
    policy = options.policy or (POLICIES if is_resco else SHIPPED_POLICY)
    seeds = range(TEST_SEEDS.start, TEST_SEEDS.start + n_seeds)
    file = options.runs or chosen.file
    try:
        for folder in (file.parent, UNFINISHED):
            check_writable(folder)
        jobs = plan_jobs(options.study, seeds, policy, options.maps)
        if options.only:
            wanted = {*options.only}
            names = {name for job in jobs for name in (job.case.name, job.traffic.name)}
            if not wanted <= names:
                unknown, known = ("; ".join(sorted(some)) for some in (wanted - names, names))
                parser.error(f"no run is of {unknown}; known: {known}")
            jobs = [job for job in jobs if wanted & {job.case.name, job.traffic.name}]
        runs = evaluate(jobs, file, UNFINISHED, options.workers, chosen.columns)
    except (InvalidNetworkError, InvalidPolicyFileError, InvalidScenarioError) as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}")
    tqdm.write(f"{len(runs)} runs are in {file}.")
    if is_resco or not options.only:
        chosen.report(runs, file)


if __name__ == "__main__":
    main()
