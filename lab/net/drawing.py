"""A picture of a network in SVG: where its junctions and lanes are, and each junction's phases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import chain
from pathlib import Path
from textwrap import wrap

from models.atomic_write import atomic_write
from models.networks.form import JunctionEntry, Link, NetworkFile, Phase, Point

DRAWN_JUNCTIONS = 40  # whose phases are drawn, unless some are named
CELL, COLUMNS, OVERVIEW = 220, 4, 440  # pixels of a phase, the fewest beside each other, the map
LEGEND = "dark green: free to go; light green: gives way; blue: walk; red: waits"
STYLE = """
svg { background: white; font: 11px sans-serif } text { text-anchor: middle }
path { fill: none; stroke: #9e9e9e; stroke-width: .8 } .red { stroke: #d73027 }
.G { stroke: #1a9850; marker-end: url(#head) } .g { stroke: #8fce00; marker-end: url(#head) }
.walk { stroke: #2166ac; stroke-width: 2 } #head path { fill: context-stroke; stroke: none }
circle { fill: #d73027 }"""
HEAD = '<marker id="head" orient="auto" markerWidth="4" markerHeight="4" viewBox="0 -2 4 4">'
_NEAR_M, _LEAST_DEPTH_M = 15.0, 8.0
_TURNED = {"l": 1j, "L": 1j, "r": -1j, "R": -1j, "t": -1}  # of straight on


def draw_network(
    network: NetworkFile, path: Path, junctions: Sequence[str] = ()
) -> tuple[JunctionEntry, ...]:
    """Write a picture; returns the junctions that show phases."""
    named = tuple(each for each in network.junctions if each.id in junctions)
    shown = (named or network.junctions)[:DRAWN_JUNCTIONS]
    width = CELL * max(COLUMNS, *(len(each.phases) for each in shown))
    height = OVERVIEW + CELL * len(shown)
    phases = (
        _phase(junction, phase, number, CELL * number, OVERVIEW + CELL * row)
        for row, junction in enumerate(shown)
        for number, phase in enumerate(junction.phases)
    )
    parts = "\n".join(chain([_overview(network, width)], phases))
    text = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"><style>{STYLE}'
        f'</style>{HEAD}<path d="M0-2L4 0L0 2z"/></marker>\n{parts}</svg>\n'
    )
    with atomic_write(path) as file:
        file.write(text.encode())
    return shown


def _overview(network: NetworkFile, width: int) -> str:
    lines = [lane.shape for each in network.junctions for lane in each.lanes if lane.shape]
    places = {each.id: each.position for each in network.junctions if each.position}
    x, y = zip(*chain(*lines, places.values()), strict=True) if lines or places else ((0,), (0,))
    wide_m, high_m = max(x) - min(x), max(y) - min(y)
    pixel = max(wide_m / width, high_m / (OVERVIEW - 60), 0.01)
    parts = [f'<path style="stroke-width:{pixel:.2f}" d="{_line(line)}"/>' for line in lines]
    for name, (east, north) in places.items():
        parts.append(f'<circle cx="{east:.1f}" cy="{-north:.1f}" r="{3 * pixel:.2f}"/>')
        if len(network.junctions) <= DRAWN_JUNCTIONS:
            at = f'x="{east:.1f}" y="{-north - 6 * pixel:.1f}"'
            parts.append(f'<text style="font-size:{11 * pixel:.2f}px" {at}>{_short(name)}</text>')
    title = f"{network.name}: {len(network.junctions)} junctions. {LEGEND}"
    return (
        f'<text x="{width // 2}" y="14">{escape(title)}</text>'
        f'<svg y="40" width="{width}" height="{OVERVIEW - 60}" overflow="visible"'
        f' viewBox="{min(x):.1f} {-max(y):.1f} {wide_m:.1f} {high_m:.1f}">{"".join(parts)}</svg>'
    )


def _phase(junction: JunctionEntry, phase: Phase, number: int, x: int, y: int) -> str:
    """Return what a phase shows around the junction, with its words."""
    shapes = {lane.id: lane.shape for lane in junction.lanes if lane.shape}
    stops = [complex(*shape[-1]) for shape in shapes.values()]
    middle = complex(*junction.position) if junction.position else sum(stops) / (len(stops) or 1)
    reach_m = _NEAR_M + max((abs(stop - middle) for stop in stops), default=0.0)
    box = f"{middle.real - reach_m:.1f} {-middle.imag - reach_m:.1f}"
    lines = chain(_lanes(junction, phase, shapes), _ways(junction, phase, shapes, middle))
    words = wrap((phase.name or phase.state or "")[:80], 40)
    texts = [(12, f"{_short(junction.id)}: {number}")]
    texts += [(CELL - 22 + 14 * row, escape(line)) for row, line in enumerate(words)]
    return (
        f'<svg x="{x}" y="{y + 16}" width="{CELL}" height="{CELL - 52}"'
        f' viewBox="{box} {2 * reach_m:.1f} {2 * reach_m:.1f}">{"".join(lines)}</svg>'
        + "".join(f'<text x="{x + CELL // 2}" y="{y + at}">{text}</text>' for at, text in texts)
    )


def _lanes(
    junction: JunctionEntry, phase: Phase, shapes: Mapping[str, Sequence[Point]]
) -> Iterator[str]:
    """Yield the incoming lanes, red where none of their ways is green."""
    green = {
        link.lane for at, link in junction.placed_links if (phase.state or "")[at : at + 1] in "Gg"
    }
    for lane, shape in shapes.items():
        waits = ' class="red"' if phase.state and lane not in green else ""
        yield f'<path{waits} d="{_line(shape)}"/>'


def _ways(
    junction: JunctionEntry,
    phase: Phase,
    shapes: Mapping[str, Sequence[Point]],
    middle: complex,
) -> Iterator[str]:
    """Yield the green ways across the junction as arrows, and the crossings with walk."""
    for at, link in junction.placed_links:
        letter = (phase.state or "")[at : at + 1]
        if letter not in ("g", "G"):
            continue
        if link.crossing is not None:
            yield f'<path class="walk" d="{_line(link.shape or ())}"/>'
        elif len(shape := shapes.get(link.lane, ())) > 1:
            before, stop = (complex(*point) for point in shape[-2:])
            yield f'<path class="{letter}" d="{_arrow(link, before, stop, middle)}"/>'


def _arrow(link: Link, before: complex, stop: complex, middle: complex) -> str:
    """Return a curve from a stop line across the junction."""
    ahead = (stop - before) / (abs(stop - before) or 1.0)
    depth_m = max(_LEAST_DEPTH_M, ((middle - stop) * ahead.conjugate()).real)
    corner = stop + ahead * depth_m * (0.6 if link.turn in "rR" else 1.0)
    end = corner + ahead * _TURNED.get(link.turn, 1) * depth_m
    start, bend, tip = (f"{each.real:.1f},{-each.imag:.1f}" for each in (stop, corner, end))
    return f"M{start}Q{bend} {tip}"


def _line(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{x:.1f},{-y:.1f}" for x, y in points)


def _short(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:21]}..."
