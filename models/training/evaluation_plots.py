"""Plots of the policy's card: how controllers compare, and how training went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

mpl.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})

POLICY, PEER = "#d95f02", "#9ecae1"
FAR_OFF = 2.0  # runs that start beyond this multiple of the best validation have their own panel
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

    Validation has a panel for runs that start from a policy and one for those that start from far
    worse weights: on one scale the former would be a line at zero.

    Args:
        curves: by run, the columns ``iteration``, ``time_loss_s`` and ``validation`` (NaN where
            an iteration had none).
    """
    figure = Figure(figsize=(11, 3.2), layout="constrained")
    sampled, from_policies, from_scratch = figure.subplots(1, 3)
    validated = {name: _validated(columns) for name, columns in curves.items()}
    lowest = min(loss for points in validated.values() for _, loss in points)
    for number, (name, columns) in enumerate(curves.items()):
        look = {"label": name, "color": f"C{number}"}
        sampled.plot(columns["iteration"], columns["time_loss_s"], lw=0.8, **look)
        far_off = validated[name][0][1] > FAR_OFF * lowest
        greedy = from_scratch if far_off else from_policies
        greedy.plot(*zip(*validated[name], strict=True), marker="o", ms=3, lw=1, **look)
    for axes, title in (
        (sampled, "sampling policy on training traffic"),
        (from_policies, "greedy on validation, from a policy"),
        (from_scratch, "greedy on validation, from random weights"),
    ):
        axes.set_title(title, loc="left", fontsize=9)
        axes.set_xlabel("iteration")
        axes.set_ylabel("time loss, s per vehicle")
        if axes is not from_policies:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:.0f}")
            axes.yaxis.set_minor_formatter("")
    sampled.legend(frameon=False, ncols=2)
    figure.savefig(path, dpi=110)


def _validated(columns: Mapping[str, Sequence[float]]) -> list[tuple[float, float]]:
    """Return iteration and validation of the iterations that had one."""
    pairs = zip(columns["iteration"], columns["validation"], strict=True)
    return [(iteration, loss) for iteration, loss in pairs if not isnan(loss)]
