"""Plots of the policy's card: how controllers compare, and how training went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

mpl.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})

POLICY, PEER = "#d95f02", "#9ecae1"
CROP = 2.5  # bars beyond this multiple of the policy's are cut off and labelled


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
    figure = Figure(figsize=(2.6 * len(levels), 3.0 * len(measures)), layout="constrained")
    rows = figure.subplots(len(measures), len(levels), squeeze=False)
    places = range(len(controllers))
    colours = [POLICY if controller == "policy" else PEER for controller in controllers]
    for row, (title, cells) in zip(rows, measures.items(), strict=True):
        for axes, level in zip(row, levels, strict=True):
            means, half_widths = zip(*(cells[level, each] for each in controllers), strict=True)
            axes.barh(places, means, xerr=half_widths, color=colours, error_kw={"lw": 1})
            axes.set_yticks(places, controllers if axes is row[0] else [])
            axes.invert_yaxis()
            limit = CROP * cells[level, "policy"][0]
            axes.set_xlim(0, min(limit, 1.15 * max(means)))
            for place, mean in zip(places, means, strict=True):
                if mean > limit:
                    axes.text(limit, place, f"{mean:.0f} ", ha="right", va="center")
            axes.set_xlabel(title)
            axes.set_title(level.replace(", ", "\n", 1), fontsize=9)
    figure.savefig(path, dpi=110)


def plot_training(path: Path, curves: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    """Time loss over the iterations: of the sampling policy while it trains, and on validation.

    Args:
        curves: by run, the columns ``iteration``, ``time_loss_s`` and ``validation`` (NaN where
            an iteration had none).
    """
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    sampled, greedy = figure.subplots(1, 2)
    for name, columns in curves.items():
        sampled.plot(columns["iteration"], columns["time_loss_s"], lw=0.8, label=name)
        validated = [
            point
            for point in zip(columns["iteration"], columns["validation"], strict=True)
            if not isnan(point[1])
        ]
        greedy.plot(*zip(*validated, strict=True), marker="o", ms=3, lw=1, label=name)
    sampled.set_title("sampling policy on training traffic", loc="left", fontsize=9)
    greedy.set_title("greedy policy on validation traffic, geometric mean", loc="left", fontsize=9)
    for axes in (sampled, greedy):
        axes.set_xlabel("iteration")
        axes.set_ylabel("time loss, s per vehicle")
    greedy.legend(frameon=False)
    figure.savefig(path, dpi=110)
