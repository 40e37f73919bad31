"""Charts in SVG: on a page with its colours, light or dark, or as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import inf, isnan

from lab.evaluate.statistics import Estimate, estimate

ROW, LETTER, WIDTH, RIGHT = 28, 7, 460, 70  # pixels at scale 1
AXIS, TOP, TALL, COLUMNS_WIDTH, MOST_LABELS = 60, 10, 120, 590, 8
STYLE = (
    "svg{font:13px sans-serif}rect{fill:#9ecae1}path{stroke:#1c2430;fill:none}"
    "circle{fill:#5b6675;opacity:.7}.paper{fill:#fff}"
)


def bars(title: str, values: Mapping[str, Sequence[float]], most: float = inf) -> str:
    """Draw means with their intervals, and every seed as a dot.

    Args:
        values: of each seed, from zero up, by the name of the bar.
        most: bars beyond are cut off.
    """
    means = {name: estimate(seeds) for name, seeds in values.items()}
    ends = (max(*seeds, _end(means[name])) for name, seeds in values.items())
    largest = min(most, max(ends)) or 1.0
    left = _left(values)
    rows = "".join(
        _bar(number, name, means[name], [each for each in seeds if each <= largest], largest, left)
        for number, (name, seeds) in enumerate(values.items())
    )
    return (
        f'<svg viewBox="0 0 {left + WIDTH + RIGHT} {ROW * len(values) + 6}" role="img">'
        f"<title>{escape(title)}</title>{rows}</svg>"
    )


def picture(charts: Sequence[tuple[str, Mapping[str, Sequence[float]], float]]) -> str:
    """Return a picture of titled charts of the same bars, two beside each other.

    Args:
        charts: title, values and most of each, see :func:`bars`.
    """
    width = _left(charts[0][1]) + WIDTH + RIGHT
    height = ROW * max(len(values) for _, values, _ in charts) + 40
    parts = "".join(
        f'<svg x="{at % 2 * width}" y="{at // 2 * height}" width="{width}" height="{height}">'
        f'<text x="10" y="20">{escape(title)}</text>'
        f'<svg y="26" height="{ROW * len(values) + 6}">{bars(title, values, most)}</svg></svg>'
        for at, (title, values, most) in enumerate(charts)
    )
    size = f'width="{2 * width}" height="{-(-len(charts) // 2) * height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{STYLE}</style>'
        f'<rect class="paper" {size}/>{parts}</svg>\n'
    )


def _left(values: Mapping[str, object]) -> int:
    """Return the pixels for names before the bars."""
    return LETTER * max(map(len, values)) + 10


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


def _bar(
    number: int, name: str, value: Estimate, seeds: Sequence[float], largest: float, left: int
) -> str:
    top, middle, scale = number * ROW + 6, number * ROW + 16, WIDTH / largest
    mean, end = (scale * min(each, largest) for each in (value.mean, _end(value)))
    low, high = left + max(0.0, scale * (2 * value.mean - _end(value))), left + end
    dots = "".join(
        f'<circle cx="{left + seed * scale:.1f}" cy="{middle}" r="2.5"/>' for seed in seeds
    )
    interval = f"M{low:.1f} {middle}H{high:.1f}M{low:.1f} {top + 4}v12M{high:.1f} {top + 4}v12"
    right = max(high, left + scale * max(seeds, default=0.0)) + 8
    return (
        f'<text x="{left - 8}" y="{middle + 4}" text-anchor="end">{escape(name)}</text>'
        f'<rect x="{left}" y="{top}" width="{mean:.1f}" height="20"/>'
        + (f'<path d="{interval}"/>' if low <= high else "")
        + f'{dots}<text x="{right:.1f}" y="{middle + 4}">{value.mean:.1f}</text>'
    )


def _end(value: Estimate) -> float:
    return value.mean if isnan(value.half_width) else value.mean + value.half_width
