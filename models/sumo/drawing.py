"""A picture of a network: where its junctions and lanes are, and each junction's phases."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from models.networks.form import JunctionEntry, Link, NetworkFile, Phase, Point

DRAWN_JUNCTIONS = 40  # whose phases are drawn, unless some are named
GREEN, GIVES_WAY, RED, ROAD = "#1a9850", "#91cf60", "#d73027", "#9e9e9e"
_NEAR_M = 40.0


def draw_network(
    network: NetworkFile, path: Path, junctions: Sequence[str] = ()
) -> tuple[JunctionEntry, ...]:
    """Write a picture (png, svg or pdf by its name); returns the junctions that show phases."""
    named = tuple(each for each in network.junctions if each.id in junctions)
    shown = (named or network.junctions)[:DRAWN_JUNCTIONS]
    columns = max(len(each.phases) for each in shown)
    rows = 2 + len(shown)
    figure = Figure(figsize=(max(8, 2.4 * columns), 2.4 * rows), layout="constrained")
    grid = figure.add_gridspec(rows, columns)
    _draw_overview(figure.add_subplot(grid[:2, :]), network)
    for row, junction in enumerate(shown, start=2):
        for column, phase in enumerate(junction.phases):
            _draw_phase(figure.add_subplot(grid[row, column]), junction, column, phase)
    figure.savefig(path, dpi=90)
    return shown


def _draw_overview(axes: Axes, network: NetworkFile) -> None:
    for junction in network.junctions:
        for lane in junction.lanes:
            if lane.shape:
                axes.plot(*zip(*lane.shape, strict=True), color=ROAD, lw=0.8)
        if junction.position:
            axes.plot(*junction.position, "o", color=RED, ms=3)
            if len(network.junctions) <= DRAWN_JUNCTIONS:
                label = f"{junction.agent_index} {_short(junction.id)}"
                axes.annotate(label, junction.position, fontsize=7)
    axes.set_title(f"{network.name}: {len(network.junctions)} junctions", fontsize=9)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_axis_off()


def _draw_phase(axes: Axes, junction: JunctionEntry, number: int, phase: Phase) -> None:
    ends = {lane.id: lane.shape[-1] for lane in junction.lanes if lane.shape}
    for lane in junction.lanes:
        if lane.shape:
            axes.plot(*zip(*lane.shape[-2:], strict=True), color=_colour(junction, lane.id, phase))
    middle = junction.position or _middle(list(ends.values()))
    if middle is not None:
        reach = _NEAR_M + max((abs(x - middle[0]) for x, _ in ends.values()), default=0)
        axes.set_xlim(middle[0] - reach, middle[0] + reach)
        axes.set_ylim(middle[1] - reach, middle[1] + reach)
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(f"{_short(junction.id)}: {number}", fontsize=7)
    axes.set_xlabel((phase.name or phase.state or "")[:60], fontsize=6, wrap=True)


def _colour(junction: JunctionEntry, lane: str, phase: Phase) -> str:
    """Return the colour of the best that any way out of the lane shows."""
    if phase.state is None or junction.links is None:
        return ROAD
    letters = {
        phase.state[place if link.index is None else link.index]
        for place, link in enumerate(_links(junction))
        if link.lane == lane
    }
    return GREEN if "G" in letters else GIVES_WAY if "g" in letters else RED


def _links(junction: JunctionEntry) -> tuple[Link, ...]:
    return junction.links or ()


def _middle(points: list[Point]) -> Point | None:
    if not points:
        return None
    return sum(x for x, _ in points) / len(points), sum(y for _, y in points) / len(points)


def _short(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:21]}..."
