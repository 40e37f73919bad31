"""Charts in SVG that follow the page's colours, light or dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import isnan

from lab.evaluate.statistics import Estimate

ROW, LEFT, WIDTH, RIGHT = 28, 130, 460, 70  # pixels at scale 1
AXIS, TOP, TALL, COLUMNS_WIDTH, MOST_LABELS = 60, 10, 120, 590, 8


def bars(
    title: str, estimates: Mapping[str, Estimate], values: Mapping[str, Sequence[float]]
) -> str:
    """Draw means with their intervals, and every seed as a dot.

    Args:
        estimates, values: by the name of the bar, from zero up.
    """
    largest = max(max(map(max, values.values())), max(map(_end, estimates.values()))) or 1.0
    scale = WIDTH / largest
    height = ROW * len(estimates) + 6
    rows = "".join(
        _bar(number, name, value, values[name], scale)
        for number, (name, value) in enumerate(estimates.items())
    )
    return (
        f'<svg viewBox="0 0 {LEFT + WIDTH + RIGHT} {height}" role="img">'
        f"<title>{escape(title)}</title>{rows}</svg>"
    )


def columns(title: str, values: Sequence[float], labels: Sequence[str]) -> str:
    """Draw a column for each value, with the largest one and the labels of some."""
    largest, step = max(values, default=0) or 1, COLUMNS_WIDTH / max(1, len(values))
    every = -(-len(values) // MOST_LABELS)
    parts = [
        f'<rect x="{AXIS + number * step + 1:.1f}" width="{step - 2:.1f}"'
        f' y="{TOP + TALL * (1 - value / largest):.1f}" height="{TALL * value / largest:.1f}"/>'
        for number, value in enumerate(values)
    ]
    parts += [
        f'<text x="{AXIS + number * step:.1f}" y="{TOP + TALL + 18}">{escape(label)}</text>'
        for number, label in enumerate(labels)
        if number % every == 0
    ]
    for value in (0.0, largest / 2, largest):
        y = TOP + TALL * (1 - value / largest)
        parts.append(
            f'<path d="M{AXIS} {y:.1f}h{COLUMNS_WIDTH}" opacity=".25"/>'
            f'<text x="{AXIS - 8}" y="{y + 4:.1f}" text-anchor="end">{value:,.0f}</text>'
        )
    return (
        f'<svg viewBox="0 0 {AXIS + COLUMNS_WIDTH + 10} {TOP + TALL + 26}" role="img">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )


def _bar(number: int, name: str, value: Estimate, seeds: Sequence[float], scale: float) -> str:
    top, middle = number * ROW + 6, number * ROW + 16
    low = LEFT + max(0.0, 2 * value.mean - _end(value)) * scale
    high = LEFT + _end(value) * scale
    dots = "".join(
        f'<circle cx="{LEFT + seed * scale:.1f}" cy="{middle}" r="2.5"/>' for seed in seeds
    )
    right = max(high, LEFT + max(seeds) * scale) + 8
    return (
        f'<text x="{LEFT - 8}" y="{middle + 4}" text-anchor="end">{escape(name)}</text>'
        f'<rect x="{LEFT}" y="{top}" width="{value.mean * scale:.1f}" height="20"/>'
        f'<path d="M{low:.1f} {middle}H{high:.1f}M{low:.1f} {top + 4}v12M{high:.1f} {top + 4}v12"/>'
        f'{dots}<text x="{right:.1f}" y="{middle + 4}">{value.mean:.1f}</text>'
    )


def _end(value: Estimate) -> float:
    return value.mean if isnan(value.half_width) else value.mean + value.half_width
