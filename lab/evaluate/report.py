"""The evaluation's tables: means over the seeds with 95 % intervals, as Markdown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from lab.evaluate.cases import (
    BROKEN,
    COMPARED,
    CYCLIC,
    DETECTED,
    DETECTING,
    DIAGNOSED,
    DIAGNOSED_POLICY,
    FALLBACKS,
    GUARDED_POLICY,
    LEVELS,
    ORDERED,
    OUTAGE_RUNS,
    OUTAGES,
    POLICY,
    RUSH_HOUR,
    SAFE_POLICY,
    STRESS,
)
from lab.evaluate.statistics import Estimate, estimate
from lab.sim.controllers import GUARDED

mpl.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})

REPORTS = Path(__file__).parents[2] / "models" / "reports"
OUR_POLICIES = POLICY, GUARDED_POLICY, SAFE_POLICY
OURS, THEIRS = "#d95f02", "#9ecae1"
CROP = 2.5  # bars beyond this multiple of the policy's are cut off and labelled


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


Cells = Mapping[tuple[str, str], Estimate]  # by level and controller


def write_report(runs: Sequence[Run], folder: Path = REPORTS) -> None:
    """Write ``policy.md`` and ``policy.png``."""
    of_all = [run for run in runs if run.controller in COMPARED]
    in_stress = [run for run in of_all if run.level in STRESS]
    compared = [run for run in of_all if run.level not in STRESS]
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
    peers = [each for each in controllers if each not in (POLICY, SAFE_POLICY)]
    lines += _table(
        "Time loss of the policy less that of a peer under the same rules, seed by seed, s per"
        " vehicle",
        _differences(compared),
        levels,
        peers,
    )
    lines += _outages(runs) + _stress(in_stress) + _diagnosis(runs)
    folder.mkdir(parents=True, exist_ok=True)
    Path(folder, "policy.md").write_text("\n".join([*lines, ""]), encoding="utf-8")
    plotted = {MEASURES[name]: tables[name] for name in ("time_loss_s", "waiting_s")}
    plot_comparison(folder / "policy.png", levels, controllers, plotted)


def write_order_report(runs: Sequence[Run], folder: Path = REPORTS) -> None:
    """Write the table of what the phases' cyclic order costs each controller."""
    losses: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for run in sorted(runs, key=lambda each: each.seed):
        losses[run.controller, run.level].append(run.time_loss_s)
    cells: dict[tuple[str, str], Estimate | str] = {}
    for (name, level), measured in losses.items():
        cells[name, level] = estimate(measured)
        if CYCLIC in name:
            free = losses[name.replace(CYCLIC, ""), level]
            cells[name, level] = f"{estimate(measured)} ({estimate(np.subtract(measured, free))})"
    n_seeds = len({run.seed for run in runs})
    title = (
        "Time loss with and without the phases' cyclic order, and its price seed by seed,"
        f" {n_seeds} seeds, s per vehicle"
    )
    table = _table(title, cells, ORDERED, list(LEVELS))
    Path(folder, "phase_order.md").write_text(
        "\n".join([*table[1:], ""]).removeprefix("#"), encoding="utf-8"
    )


def detector_table(runs: Sequence[Run]) -> str:
    """Return the table of the time loss by layout of detectors, in Markdown."""
    n_seeds = len({run.seed for run in runs})
    title = f"Time loss by layout of detectors, {n_seeds} seeds, s per vehicle"
    cells = _estimates(runs, "time_loss_s")
    return "\n".join(_table(title, cells, list(DETECTED), list(DETECTING))[1:])


def _outages(runs: Sequence[Run]) -> list[str]:
    """Return the table of what an outage costs with either fallback, between what it may cost."""
    runs = [run for run in runs if run.level == RUSH_HOUR]
    measured: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        measured[run.controller].append(run.time_loss_s)
    if not measured.keys() >= set(OUTAGE_RUNS):
        return []
    always = {"no outage": POLICY, "fixed time all the time": "fixed time"}
    rows = ["no outage", *OUTAGES, "fixed time all the time"]
    cells = {
        (row, fallback): estimate(measured[always.get(row, f"{row}, {fallback}")])
        for row in rows
        for fallback in FALLBACKS
    }
    title = f"Time loss in outages by what the gateway falls back to, {RUSH_HOUR}, s per vehicle"
    return _table(title, cells, rows, list(FALLBACKS))


def _stress(runs: Sequence[Run]) -> list[str]:
    """Return the table of faults, other routes and other hours; nothing if it was not measured."""
    if not runs:
        return []
    cells: defaultdict[tuple[str, str], Estimate | str] = defaultdict(str)
    cells.update(_estimates(runs, "time_loss_s"))
    n_seeds = len({run.seed for run in runs})
    title = (
        "Time loss where detectors fail, traffic goes other ways, and in other hours,"
        f" {n_seeds} seeds, s per vehicle"
    )
    concerned = {each for stress in STRESS.values() for each in stress.controllers}
    controllers = [each for each in COMPARED if each in concerned]
    return _table(title, cells, list(STRESS), controllers)


def _diagnosis(runs: Sequence[Run]) -> list[str]:
    """Return the table of what diagnosis costs, and saves; nothing if it was not measured."""
    losses = {(run.level, run.controller, run.seed): run.time_loss_s for run in runs}
    seeds = sorted({run.seed for run in runs if run.controller == DIAGNOSED_POLICY})
    if not seeds:
        return []
    columns = ["no fault", POLICY, DIAGNOSED_POLICY, "more than without fault"]
    cells: dict[tuple[str, str], Estimate | str] = {}
    for level in DIAGNOSED:
        healthy = RUSH_HOUR if level in BROKEN else level
        of_level = ((healthy, POLICY), (level, POLICY), (level, DIAGNOSED_POLICY))
        measured = [[losses[*each, seed] for seed in seeds] for each in of_level]
        for column, values in zip(columns, measured, strict=False):
            cells[level, column] = estimate(values)
        cells[level, columns[-1]] = f"{100 * (sum(measured[2]) / sum(measured[0]) - 1):.1f} %"
    title = f"Time loss with diagnosis of the detectors, {len(seeds)} seeds, s per vehicle"
    return _table(title, cells, list(DIAGNOSED), columns)


def _estimates(runs: Sequence[Run], measure: str) -> Cells:
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        values[run.level, run.controller].append(getattr(run, measure))
    return {cell: estimate(measured) for cell, measured in values.items()}


def _differences(runs: Sequence[Run]) -> Cells:
    """Paired by seed: much of the chance in the demand cancels out."""
    losses = {(run.level, run.seed, run.controller): run.time_loss_s for run in runs}
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        policy = SAFE_POLICY if run.controller.endswith(GUARDED) else POLICY
        difference = losses[run.level, run.seed, policy] - run.time_loss_s
        values[run.level, run.controller].append(difference)
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


def plot_comparison(
    path: Path,
    levels: Sequence[str],
    controllers: Sequence[str],
    measures: Mapping[str, Mapping[tuple[str, str], tuple[float, float]]],
) -> None:
    """Bars with intervals: a row per measure, a column per level.

    Args:
        measures: by title, the mean and half-width per (level, controller).
    """
    figure = Figure(figsize=(1.2 + 2.6 * len(levels), 3.0 * len(measures)), layout="constrained")
    rows = figure.subplots(len(measures), len(levels), squeeze=False)
    places = range(len(controllers))
    colours = [OURS if controller in OUR_POLICIES else THEIRS for controller in controllers]
    for row, (title, cells) in zip(rows, measures.items(), strict=True):
        for axes, level in zip(row, levels, strict=True):
            means, half_widths = zip(*(cells[level, each] for each in controllers), strict=True)
            axes.barh(places, means, xerr=half_widths, color=colours, error_kw={"lw": 1})
            axes.set_yticks(places, controllers if axes is row[0] else [])
            axes.invert_yaxis()
            limit = CROP * cells[level, POLICY][0]
            axes.set_xlim(0, min(limit, 1.15 * max(means)))
            for place, mean in zip(places, means, strict=True):
                if mean > limit:
                    axes.text(limit, place, f"{mean:.0f} ", ha="right", va="center")
            axes.set_xlabel(title)
            axes.set_title(level.replace(", ", "\n", 1), fontsize=9)
    figure.savefig(path, dpi=110)
