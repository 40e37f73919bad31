"""The evaluation's tables: means over the seeds with 95 % intervals, as Markdown."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from models.training.evaluation_plots import plot_comparison, plot_training
from models.training.outage_levels import (
    FALLBACKS,
    OUTAGE_LEVEL,
    OUTAGES,
    outage_runs,
)
from models.training.strains import ALL, STRAINS

REPORTS = Path(__file__).parents[1] / "reports"
CONFIDENCE = 0.95


class Run(NamedTuple):
    """One controller in one scenario with one seed; times are means in seconds per vehicle.

    ``version`` tells a policy's weights apart; ``queue`` is the mean number of standing vehicles on
    all incoming lanes.
    """

    controller: str
    version: str
    level: str
    seed: int
    time_loss_s: float
    waiting_s: float
    travel_s: float
    arrived: int
    demanded: int
    queue: float

    @classmethod
    def from_strings(cls, row: Mapping[str, str]) -> Self:
        return cls(
            controller=row["controller"],
            version=row["version"],
            level=row["level"],
            seed=int(row["seed"]),
            time_loss_s=float(row["time_loss_s"]),
            waiting_s=float(row["waiting_s"]),
            travel_s=float(row["travel_s"]),
            arrived=int(row["arrived"]),
            demanded=int(row["demanded"]),
            queue=float(row["queue"]),
        )


MEASURES = {
    "time_loss_s": "time loss, s per vehicle",
    "waiting_s": "waiting, s per vehicle",
    "travel_s": "travel time, s per vehicle",
    "arrived": "throughput, vehicles arrived in the hour",
    "queue": "standing vehicles, mean of the hour",
}


class Estimate(NamedTuple):
    """A mean and half the width of its 95 % interval."""

    mean: float
    half_width: float

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.half_width:.1f}"


def estimate(values: ArrayLike) -> Estimate:
    """Mean of independent values with Student's interval; no width without a second value."""
    sample = np.asarray(values, float)
    if len(sample) < 2:
        return Estimate(float(sample.mean()), float("nan"))
    quantile = stats.t.ppf((1 + CONFIDENCE) / 2, len(sample) - 1)
    return Estimate(float(sample.mean()), float(quantile * stats.sem(sample)))


Cells = Mapping[tuple[str, str], Estimate]  # by level and controller


def write_report(runs: Sequence[Run], folder: Path = REPORTS, progress: Sequence[Run] = ()) -> None:
    """Write ``policy.md``, ``policy.png``, and ``policy_training.png`` from the training's logs.

    The logs, ``policy_training/NAME.csv``, are copies of the ``log.csv`` of the runs to show.

    Args:
        progress: of the policy and of the weights that its training began with, on more seeds.
    """
    in_strain = [run for run in runs if run.level in STRAINS]
    compared = [
        run for run in runs if run.controller not in outage_runs() and run.level not in STRAINS
    ]
    levels, controllers = (
        list(dict.fromkeys(getattr(run, part) for run in compared))
        for part in ("level", "controller")
    )
    tables = {measure: _estimates(compared, measure) for measure in MEASURES}
    n_seeds = len({run.seed for run in compared})
    lines = [
        "# The policy and its peers",
        "",
        f"Means of {n_seeds} seeds with 95 % intervals, from `make evaluate`; every run is a row",
        "of `policy_runs.csv`. All controllers met the same vehicles.",
        "",
        "![Time loss and waiting by level and controller](policy.png)",
    ]
    for measure, title in MEASURES.items():
        lines += _table(f"{title[0].upper()}{title[1:]}", tables[measure], levels, controllers)
    peers = [controller for controller in controllers if controller != "policy"]
    lines += _table(
        "Time loss of the policy less that of a peer, seed by seed, s per vehicle",
        _differences(compared),
        levels,
        peers,
    )
    lines += _progress(progress) + _outages(runs) + _strains(in_strain)
    folder.mkdir(parents=True, exist_ok=True)
    Path(folder, "policy.md").write_text("\n".join([*lines, ""]), encoding="utf-8")
    plotted = {MEASURES[name]: tables[name] for name in ("time_loss_s", "waiting_s")}
    plot_comparison(folder / "policy.png", levels, controllers, plotted)
    curves = {log.stem: _read_curve(log) for log in sorted(folder.glob("policy_training/*.csv"))}
    if curves:
        plot_training(folder / "policy_training.png", curves)


def _progress(runs: Sequence[Run]) -> list[str]:
    """Return the table of what training has changed; nothing where there was none before."""
    controllers = ["imitation", "policy"]
    if {run.controller for run in runs} != set(controllers):
        return []
    difference = "policy less imitation, seed by seed"
    cells = {**_estimates(runs, "time_loss_s")}
    cells |= {
        (level, difference): each
        for (level, controller), each in _differences(runs).items()
        if controller == "imitation"
    }
    n_seeds = len({run.seed for run in runs})
    title = f"What training has changed, {n_seeds} seeds, time loss in s per vehicle"
    levels = list(dict.fromkeys(run.level for run in runs))
    return _table(title, cells, levels, [*controllers, difference])


def _outages(runs: Sequence[Run]) -> list[str]:
    """Return the table of what an outage costs with either fallback, between what it may cost."""
    runs = [run for run in runs if run.level == OUTAGE_LEVEL]
    measured: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        measured[run.controller].append(run.time_loss_s)
    if not measured.keys() >= set(outage_runs()):
        return []
    always = {"no outage": "policy", "fixed time all the time": "fixed time"}
    rows = ["no outage", *OUTAGES, "fixed time all the time"]
    cells = {
        (row, fallback): estimate(measured[always.get(row, f"{row}, {fallback}")])
        for row in rows
        for fallback in FALLBACKS
    }
    title = f"Time loss in outages by what the gateway falls back to, {OUTAGE_LEVEL}, s per vehicle"
    return _table(title, cells, rows, list(FALLBACKS))


def _strains(runs: Sequence[Run]) -> list[str]:
    """Return the table of what is not as usual; nothing where it was not measured."""
    if not runs:
        return []
    cells: defaultdict[tuple[str, str], Estimate | str] = defaultdict(str)
    cells.update(_estimates(runs, "time_loss_s"))
    n_seeds = len({run.seed for run in runs})
    title = (
        f"Time loss where detectors fail or traffic goes other ways, {n_seeds} seeds, s per vehicle"
    )
    return _table(title, cells, list(STRAINS), list(ALL))


def _read_curve(log: Path) -> dict[str, list[float]]:
    with log.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = ("iteration", "time_loss_s", "validation")
    return {column: [float(row[column] or "nan") for row in rows] for column in columns}


def _estimates(runs: Sequence[Run], measure: str) -> Cells:
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        values[run.level, run.controller].append(getattr(run, measure))
    return {cell: estimate(measured) for cell, measured in values.items()}


def _differences(runs: Sequence[Run]) -> Cells:
    """Paired by seed: much of the chance in the demand cancels out."""
    policy = {(run.level, run.seed): run.time_loss_s for run in runs if run.controller == "policy"}
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        values[run.level, run.controller].append(policy[run.level, run.seed] - run.time_loss_s)
    return {cell: estimate(differences) for cell, differences in values.items()}


def _table(
    title: str,
    cells: Mapping[tuple[str, str], Estimate | str],
    levels: Sequence[str],
    controllers: Sequence[str],
) -> list[str]:
    lines = ["", f"## {title}", "", f"| | {' | '.join(controllers)} |"]
    lines.append("|---" + "|---:" * len(controllers) + "|")
    for level in levels:
        row = " | ".join(str(cells[level, controller]) for controller in controllers)
        lines.append(f"| {level} | {row} |")
    return lines
