"""A picture of a network: where its junctions and lanes are, and each junction's phases.

All is drawn in one coordinate system, a square of size 1 for each phase: a picture of many phases
takes a second, with separate axes a minute.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import hypot
from pathlib import Path
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from models.networks.form import JunctionEntry, Link, NetworkFile, Phase, Point

DRAWN_JUNCTIONS = 40  # whose phases are drawn, unless some are named
GREEN, GIVES_WAY, WALK, RED, ROAD = "#1a9850", "#8fce00", "#2166ac", "#d73027", "#9e9e9e"
LEGEND = "dark green: free to go; light green: gives way; blue: walk; red: waits"
CELL_INCHES = 2.4
WIDTHS = {ROAD: 0.8, RED: 0.8, WALK: 3.0}
_NEAR_M, _LEAST_DEPTH_M, _HEAD_M = 15.0, 8.0, 3.0
_OVERVIEW_ROWS = 2
_TURNED = {"l": (0, 1), "L": (0, 1), "r": (0, -1), "R": (0, -1), "t": (-1, 0)}  # of straight on

Line = Sequence[tuple[float, float]]


class _Canvas:
    """Gathers lines by colour: one collection for each is drawn quickly."""

    def __init__(self, axes: Axes) -> None:
        self.axes = axes
        self._lines: defaultdict[str, list[Line]] = defaultdict(list)

    def add(self, colour: str, line: Line) -> None:
        self._lines[colour].append(line)

    def draw(self) -> None:
        for colour in (ROAD, RED, WALK, GIVES_WAY, GREEN):
            width = WIDTHS.get(colour, 1.3)
            self.axes.add_collection(LineCollection(self._lines[colour], colors=colour, lw=width))


def draw_network(
    network: NetworkFile, path: Path, junctions: Sequence[str] = ()
) -> tuple[JunctionEntry, ...]:
    """Write a picture (png, svg or pdf by its name); returns the junctions that show phases."""
    named = tuple(each for each in network.junctions if each.id in junctions)
    shown = (named or network.junctions)[:DRAWN_JUNCTIONS]
    columns = max(4, *(len(each.phases) for each in shown))
    rows = _OVERVIEW_ROWS + len(shown)
    figure = Figure(figsize=(CELL_INCHES * columns, CELL_INCHES * rows))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, columns)
    axes.set_ylim(rows, 0)
    canvas = _Canvas(axes)
    _draw_overview(canvas, network, columns)
    for row, junction in enumerate(shown, start=_OVERVIEW_ROWS):
        for column, phase in enumerate(junction.phases):
            _draw_phase(canvas, junction, column, phase, row)
    canvas.draw()
    figure.savefig(path, dpi=90)
    return shown


def _draw_overview(canvas: _Canvas, network: NetworkFile, columns: int) -> None:
    lines = [lane.shape for each in network.junctions for lane in each.lanes if lane.shape]
    places = [each.position for each in network.junctions if each.position]
    points = np.array([*chain(*lines), *places] or [(0.0, 0.0)])
    low, high = points.min(axis=0), points.max(axis=0)
    scale = 0.85 * min(np.array([columns, _OVERVIEW_ROWS]) / np.maximum(high - low, 1))
    middle = (low + high) / 2

    def placed(point: Point) -> tuple[float, float]:
        x, y = scale * (np.array(point) - middle)
        return columns / 2 + x, _OVERVIEW_ROWS / 2 + 0.05 - y

    for line in lines:
        canvas.add(ROAD, [placed(point) for point in line])
    for junction in network.junctions:
        if junction.position:
            x, y = placed(junction.position)
            canvas.axes.plot(x, y, "o", color=RED, ms=3)
            if len(network.junctions) <= DRAWN_JUNCTIONS:
                canvas.axes.text(x, y, f"{junction.agent_index} {_short(junction.id)}", fontsize=7)
    title = f"{network.name}: {len(network.junctions)} junctions. {LEGEND}"
    canvas.axes.text(columns / 2, 0.05, title, ha="center", va="top", fontsize=8)


def _draw_phase(
    canvas: _Canvas, junction: JunctionEntry, column: int, phase: Phase, row: int
) -> None:
    ends = {lane.id: lane.shape[-2:] for lane in junction.lanes if lane.shape}
    stops = [end[-1] for end in ends.values()]
    middle = junction.position or _middle(stops)
    if middle is not None:
        reach_m = _NEAR_M + max((hypot(*_minus(stop, middle)) for stop in stops), default=0.0)
        ways = _ways(junction, phase, ends, middle)
        for colour, line in chain(_stop_lines(junction, phase, ends, reach_m), ways):
            points = (0.4 / reach_m * (np.array(line) - middle)).clip(-0.44, 0.44)
            canvas.add(colour, [(column + 0.5 + x, row + 0.5 - y) for x, y in points])
    title = f"{_short(junction.id)}: {column}"
    canvas.axes.text(column + 0.5, row + 0.01, title, ha="center", va="top", fontsize=7)
    words = fill((phase.name or phase.state or "")[:80], 44)
    canvas.axes.text(column + 0.5, row + 0.99, words, ha="center", va="bottom", fontsize=6)


def _stop_lines(
    junction: JunctionEntry, phase: Phase, ends: Mapping[str, Sequence[Point]], reach_m: float
) -> Iterator[tuple[str, Line]]:
    """Yield the end of each incoming lane, in red where none of its ways is green."""
    green = {
        link.lane for at, link in junction.placed_links if (phase.state or "")[at : at + 1] in "Gg"
    }
    for lane, (*before, stop) in ends.items():
        ahead = _ahead(before[-1], stop) if before else (0.0, 0.0)
        start = stop[0] - reach_m * ahead[0], stop[1] - reach_m * ahead[1]
        yield (RED if phase.state and lane not in green else ROAD), (start, stop)


def _ways(
    junction: JunctionEntry, phase: Phase, ends: Mapping[str, Sequence[Point]], middle: Point
) -> Iterator[tuple[str, Line]]:
    """Yield the green ways across the junction, with arrowheads, and the crossings with walk."""
    for at, link in junction.placed_links:
        letter = (phase.state or "")[at : at + 1]
        if letter not in ("g", "G"):
            continue
        if link.crossing is not None:
            if link.shape:
                yield WALK, link.shape
        elif len(ends.get(link.lane, ())) == 2:
            colour = GREEN if letter == "G" else GIVES_WAY
            before, stop = ends[link.lane]
            for line in _arrow(link, before, stop, middle):
                yield colour, line


def _arrow(link: Link, before: Point, stop: Point, middle: Point) -> Iterator[Line]:
    """Yield a curve from a stop line across the junction, and its head."""
    ahead = np.array(_ahead(before, stop))
    aside = np.array([-ahead[1], ahead[0]])
    depth_m = max(_LEAST_DEPTH_M, float(np.dot(np.subtract(middle, stop), ahead)))
    along, across = _TURNED.get(link.turn, (1, 0))
    away = along * ahead + across * aside
    corner = np.array(stop) + ahead * depth_m * (0.6 if link.turn in "rR" else 1.0)
    end = corner + away * depth_m
    at = np.linspace(0, 1, 9)[:, None]
    yield [
        tuple(point) for point in (1 - at) ** 2 * stop + 2 * at * (1 - at) * corner + at**2 * end
    ]
    side = np.array([-away[1], away[0]])
    yield [
        tuple(end - _HEAD_M * (away + side / 2)),
        tuple(end),
        tuple(end - _HEAD_M * (away - side / 2)),
    ]


def _ahead(before: Point, stop: Point) -> Point:
    """Return the direction of travel, of length 1."""
    x, y = _minus(stop, before)
    length = hypot(x, y) or 1.0
    return x / length, y / length


def _minus(one: Point, other: Point) -> Point:
    return one[0] - other[0], one[1] - other[1]


def _middle(points: list[Point]) -> Point | None:
    if not points:
        return None
    return sum(x for x, _ in points) / len(points), sum(y for _, y in points) / len(points)


def _short(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:21]}..."
