"""The comparison as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from load_tests.bench.comparison.figures import Turns, median, median_under

COLOURS = ("#a6cee3", "#1f78b4", "#08306b")
OURS, OTHERS = "#1b9e77", "#999999"


def draw(turns: Turns, loads: Sequence[str], ours: Sequence[str]) -> Figure:
    """Draw throughput under each load, CPU time under the middle one, and memory.

    Args:
        loads: by their numbers of connections.
        ours: contenders in another colour.
    """
    figure = Figure(figsize=(9.6, 1.4 + 0.42 * len(turns)), layout="constrained")
    speed, cpu, memory = figure.subplots(1, 3, sharey=True, width_ratios=[2, 1, 1])
    height = 0.8 / len(loads)
    for number, (load, colour) in enumerate(zip(loads, COLOURS, strict=True)):
        rates = [median_under(each, load, "per_s") or 0.0 for each in turns.values()]
        offset = (number - (len(loads) - 1) / 2) * height
        at = [row + offset for row in range(len(turns))]
        speed.barh(at, rates, height, color=colour, label=load)
    speed.set_yticks(range(len(turns)), list(turns))
    speed.invert_yaxis()  # the first contender on top
    speed.set_xlabel("requests/s")
    figure.legend(loc="outside upper center", ncols=len(loads), frameon=False, title="connections")
    middle = loads[len(loads) // 2]
    # seconds per 1,000 requests are milliseconds each
    costs = [median_under(each, middle, "cpu_s") or 0.0 for each in turns.values()]
    sizes = [median(each, "memory_bytes") / 1e6 for each in turns.values()]
    colours = [OURS if name in ours else OTHERS for name in turns]
    for axes, values, label, form in (
        (cpu, costs, f"CPU ms each at {middle}", "%.2f"),
        (memory, sizes, "memory, MB", "%.0f"),
    ):
        bars = axes.barh(range(len(turns)), values, 0.6, color=colours)
        axes.bar_label(bars, fmt=form, padding=2, fontsize="small")
        axes.margins(x=0.25)  # room for the numbers
        axes.set_xlabel(label)
    for axes in (speed, cpu, memory):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write the picture; its ending says in which format."""
    figure.savefig(path, dpi=110, metadata={"Software": None} if path.suffix == ".png" else None)
