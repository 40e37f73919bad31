"""The record of a run. Runs are made once each, and kept as JSON or CSV for the next time."""

from __future__ import annotations

import csv
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, as_completed
from dataclasses import dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from lab.evaluate.statistics import Estimate, estimate
from lab.processes import make_pool
from lab.sim.metrics import Approach, Metrics
from lab.sim.scenario import InvalidScenarioError
from lab.sim.simulator import ENDED
from lab.tables import write_csv
from models.atomic_write import atomic_write

SUMO = version("eclipse-sumo")
JAMMED, STUCK = 1.5, 1 / 3
TEXTS = "controller", "version", "traffic", "sumo"


@dataclass(frozen=True, kw_only=True)
class Run(Metrics):
    """The metrics of one run, and whose it is.

    Attributes:
        version: tells the files apart that decide, such as a policy's weights.
        sumo: the version of SUMO, if it was recorded.
        queue: mean number of standing vehicles on all incoming lanes.
        walk_red_s: the longest red of a crossing; 0 where SUMO runs the programs.
        resco_queue: see :class:`.RescoQueues`.
    """

    controller: str
    seed: int
    traffic: str = ""
    version: str = ""
    sumo: str = ""
    queue: float = 0.0
    walk_red_s: float = 0.0
    resco_queue: float | None = None

    @classmethod
    def read(cls, made: Mapping[str, Any]) -> Run:
        """Return a run from the values of its JSON file, or of a row."""
        known = {each.name for each in fields(cls)}
        values = {name: value for name, value in made.items() if name in known}
        approaches = values.get("approaches", {}).items()
        return cls(**{**values, "approaches": {road: Approach(*each) for road, each in approaches}})

    @classmethod
    def of(cls, controller: str, seed: int, metrics: Metrics, **more: Any) -> Run:
        """Return the record of a run's metrics, and of what more is known of it.

        Raises:
            InvalidScenarioError: there was no vehicle and no pedestrian.
        """
        if not metrics.demanded and not metrics.walks:
            raise InvalidScenarioError(
                "SUMO has simulated no vehicle and no pedestrian. Do the routes have some between"
                " the begin and the end, and is `scale` above 0?"
            )
        values = vars(metrics) | {"queue": sum(metrics.queues.values())} | more
        rounded = {name: _rounded(value) for name, value in values.items()}
        return cls(controller=controller, seed=seed, sumo=SUMO, **rounded)

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What tells runs apart, and orders them in a file."""
        return self.controller, self.version, self.traffic, self.seed


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, Mapping):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, Approach):
        return Approach(*map(_rounded, value))
    return tuple(map(_rounded, value)) if isinstance(value, tuple) else value


def digest(path: Path) -> str:
    """Tell one file of weights, or of a plan, from another: runs count for what made them."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def make_runs(
    jobs: Mapping[Path, Callable[[], Mapping[str, Any]]], same: Mapping[str, Any], workers: int
) -> dict[Path, dict[str, Any]]:
    """Make the runs whose files are not there, and return all, in the order of the jobs.

    Args:
        jobs: by the file that keeps it, what makes a run, in a separate process.
        same: what a kept run must agree in, such as SUMO's version; another is made anew.
    """
    done = {path: read_run(path, same) for path in jobs}
    with make_pool(workers) as pool:
        running = {pool.submit(jobs[path]): path for path in jobs if done[path] is None}
        try:
            for future in tqdm(as_completed(running), total=len(running), unit="run"):
                path = running[future]
                done[path] = run = dict(future.result())
                path.parent.mkdir(parents=True, exist_ok=True)
                with atomic_write(path) as file:
                    file.write(json.dumps(run).encode())
        except BrokenExecutor:
            raise InvalidScenarioError(ENDED) from None
    return {path: run for path, run in done.items() if run is not None}


def read_run(path: Path, same: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a kept run, None where there is none or it is one of something else."""
    if not path.exists():
        return None
    run: dict[str, Any] = json.loads(path.read_text())
    return run if run == {**run, **same} else None


def read_runs(file: Path) -> list[Run]:
    """Return the runs of a CSV; those of another SUMO are left out."""
    if not file.exists():
        return []
    with file.open(newline="", encoding="utf-8") as rows:
        runs = [
            Run.read({name: _value(name, cell) for name, cell in row.items()})
            for row in csv.DictReader(rows)
        ]
    return [run for run in runs if run.sumo in ("", SUMO)]


def _value(name: str, cell: str) -> Any:
    return cell if name in TEXTS else json.loads(cell or "null")


def write_runs(file: Path, runs: Iterable[Run], columns: Sequence[str]) -> None:
    """Write a CSV, ordered so that the same runs make the same file."""
    ordered = sorted(runs, key=lambda run: run.key)
    rows = ([getattr(run, name) for name in columns] for run in ordered)
    write_csv(file, columns, rows)


def values_of(runs: Iterable[Run], measure: str) -> dict[tuple[str, str], list[Any]]:
    """Return the values of a measure by traffic and controller, in the order of the runs."""
    return {cell: [getattr(run, measure) for run in known] for cell, known in _cells(runs).items()}


def means_of(runs: Iterable[Run], measure: str) -> dict[tuple[str, str], Estimate]:
    """Return the means by traffic and controller; a cell that lacks a value has none."""
    values = values_of(runs, measure).items()
    return {cell: estimate(measured) for cell, measured in values if None not in measured}


def medians_of(runs: Iterable[Run]) -> dict[tuple[str, str], str]:
    """Return median and interquartile mean of the delay by traffic and controller, and the jams."""
    return {cell: _median(known) for cell, known in _cells(runs).items()}


def _cells(runs: Iterable[Run]) -> dict[tuple[str, str], list[Run]]:
    cells: defaultdict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        cells[run.traffic, run.controller].append(run)
    return cells


def _median(runs: Sequence[Run]) -> str:
    """Return the median and the interquartile mean of one cell's delay, and how many runs jammed.

    A run has jammed if its delay is above 1.5 x the median, or more than a third of its vehicles
    have not arrived.
    """
    delays_s = np.sort([run.delay_s for run in runs])
    middle_s, quarter = np.median(delays_s), len(runs) // 4
    jammed = sum(
        run.delay_s > JAMMED * middle_s or run.arrived < (1 - STUCK) * run.demanded for run in runs
    )
    inner_s = delays_s[quarter : len(runs) - quarter].mean()
    found = f"{middle_s:.1f}, {inner_s:.1f}"
    return f"{found} ({jammed} of {len(runs)})" if jammed else found
