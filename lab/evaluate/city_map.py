"""A map in SVG: each road to a signal, as wide as it is busy and coloured by how long one waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import hypot, sqrt

from lab.sim.metrics import Approach
from models.maps.road_map import RoadMap
from models.networks.form import Point, road_of

WIDTH, HEIGHT, MARGIN = 700, 420, 40
MOST_NAMES = 30
# Seconds of delay on an approach. The Highway Capacity Manual has these bounds for control delay,
# which also has the acceleration behind the stop line, and no wait to enter the network.
LEVELS = {"A": 10.0, "B": 20.0, "C": 35.0, "D": 55.0, "E": 80.0}
WORST = "F"
COLOURS = ("#1a9850", "#8bbd45", "#e3c02b", "#f08a24", "#d73027", "#7a0f1c")


def level_of(wait_s: float) -> str:
    """Return the level, A to F, of a mean delay on an approach."""
    return next((level for level, most_s in LEVELS.items() if wait_s <= most_s), WORST)


def draw_map(roads: RoadMap, approaches: Mapping[str, Approach], worst: str) -> str:
    """Draw the roads that lead to signals, and the signals.

    Args:
        worst: road to point out.
    """
    points = [point for road in roads.roads for lane in road.lanes for point in lane.shape]
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    low, high = min(y for _, y in points), max(y for _, y in points)
    scale = min(
        (WIDTH - 2 * MARGIN) / max(1.0, right - left), (HEIGHT - 2 * MARGIN) / max(1.0, high - low)
    )

    def placed(point: Point) -> str:
        return f"{MARGIN + scale * (point[0] - left):.1f},{MARGIN + scale * (high - point[1]):.1f}"

    most = max((each.vehicles for each in approaches.values()), default=0) or 1
    lines, marks = [], []
    for road in roads.roads:
        known = approaches.get(road_of(road.id))
        shape = road.lanes[len(road.lanes) // 2].shape
        width = 2 + 6 * sqrt(known.vehicles / most) if known else 2
        path = "M" + "L".join(map(placed, _beside(shape, (width / 2 + 1) / scale)))
        level = level_of(known.wait_s) if known else "A"
        if road_of(road.id) == worst:
            lines.append(f'<path class="worst" d="{path}" stroke-width="{width + 7:.1f}"/>')
        colour = COLOURS[(*LEVELS, WORST).index(level)]
        lines.append(
            f'<path class="road" d="{path}" stroke="{colour}" stroke-width="{width:.1f}"/>'
        )
    for junction in roads.junctions:
        x, y = placed(junction.place).split(",")
        marks.append(f'<circle class="signal" cx="{x}" cy="{y}" r="5"/>')
        if len(roads.junctions) <= MOST_NAMES:
            corner = f'x="{float(x) + 8:.1f}" y="{float(y) - 9:.1f}"'
            marks.append(f"<text {corner}>{escape(junction.name)}</text>")
    height = 2 * MARGIN + scale * (high - low)
    return (
        f'<svg class="map" viewBox="0 0 {WIDTH} {height + 26:.0f}" role="img"><title>Map</title>'
        f"{''.join(lines)}{''.join(marks)}{_legend(height)}</svg>"
    )


def _beside(shape: Sequence[Point], metres: float) -> list[Point]:
    """Move a road to its right, so that both directions of a street are seen."""
    (x, y), (end_x, end_y) = shape[0], shape[-1]
    length = hypot(end_x - x, end_y - y) or 1.0
    right, up = metres * (end_y - y) / length, metres * (x - end_x) / length
    return [(x + right, y + up) for x, y in shape]


def _legend(top: float) -> str:
    words = [f"to {most_s:.0f} s" for most_s in LEVELS.values()]
    words.append(f"over {LEVELS['E']:.0f} s")
    parts = []
    for number, (level, colour, said) in enumerate(
        zip((*LEVELS, WORST), COLOURS, words, strict=True)
    ):
        x = MARGIN + number * 110
        parts.append(
            f'<path class="road" stroke="{colour}" stroke-width="7" d="M{x},{top + 6:.0f}h22"/>'
            f'<text x="{x + 28}" y="{top + 10:.0f}">{level}: {said}</text>'
        )
    return "".join(parts)
