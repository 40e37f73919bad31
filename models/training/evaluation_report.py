"""The evaluation's tables: means over the seeds with 95 % intervals, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from models.training.evaluation_plots import plot_comparison

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
        text = (row["controller"], row["version"], row["level"])
        times = (float(row[name]) for name in ("time_loss_s", "waiting_s", "travel_s"))
        counts = (int(row[name]) for name in ("arrived", "demanded"))
        return cls(*text, int(row["seed"]), *times, *counts, float(row["queue"]))


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
    error = sample.std(ddof=1) / np.sqrt(len(sample))
    return Estimate(float(sample.mean()), float(student_quantile(len(sample) - 1) * error))


def student_quantile(freedom: int) -> float:
    """Two-sided 95 % quantile, by Abramowitz and Stegun's expansion 26.7.5."""
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def write_report(runs: Sequence[Run], folder: Path = REPORTS) -> None:
    """Write ``policy.md`` and ``policy.png``."""
    levels, controllers = (
        list(dict.fromkeys(getattr(run, part) for run in runs)) for part in ("level", "controller")
    )
    table = {
        measure: {
            (level, controller): estimate(
                [
                    getattr(run, measure)
                    for run in runs
                    if (run.level, run.controller) == (level, controller)
                ]
            )
            for level in levels
            for controller in controllers
        }
        for measure in MEASURES
    }
    n_seeds = len({run.seed for run in runs})
    lines = [
        "# The policy and its peers",
        "",
        f"Means of {n_seeds} seeds with 95 % intervals, from `make evaluate`; every run is a row",
        "of `policy_runs.csv`. All controllers met the same vehicles.",
    ]
    for measure, title in MEASURES.items():
        lines += ["", f"## {title[0].upper()}{title[1:]}", ""]
        lines += [f"| | {' | '.join(controllers)} |", "|---" + "|---:" * len(controllers) + "|"]
        for level in levels:
            cells = [str(table[measure][level, controller]) for controller in controllers]
            lines.append(f"| {level} | {' | '.join(cells)} |")
    lines += ["", *_differences(runs, levels, controllers), ""]
    folder.mkdir(parents=True, exist_ok=True)
    Path(folder, "policy.md").write_text("\n".join(lines), encoding="utf-8")
    plot_comparison(
        folder / "policy.png",
        levels,
        controllers,
        {MEASURES[name]: table[name] for name in ("time_loss_s", "waiting_s")},
    )


def _differences(
    runs: Sequence[Run], levels: Sequence[str], controllers: Sequence[str]
) -> list[str]:
    """The policy's time loss less each peer's, seed by seed: much of the chance cancels out."""
    losses = {(run.level, run.controller, run.seed): run.time_loss_s for run in runs}
    seeds = sorted({run.seed for run in runs})
    peers = [controller for controller in controllers if controller != "policy"]
    lines = ["## Time loss of the policy less that of a peer, seed by seed, s per vehicle", ""]
    lines += [f"| | {' | '.join(peers)} |", "|---" + "|---:" * len(peers) + "|"]
    for level in levels:
        cells = [
            str(
                estimate(
                    [losses[level, "policy", seed] - losses[level, peer, seed] for seed in seeds]
                )
            )
            for peer in peers
        ]
        lines.append(f"| {level} | {' | '.join(cells)} |")
    return lines
