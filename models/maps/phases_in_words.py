"""Green phases in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import atan2, degrees

_TURNS = {"s": "straight on", "l": "left", "r": "right"}  # as netconvert names directions
_COMPASS = (
    *("east", "north-east", "north", "north-west"),
    *("west", "south-west", "south", "south-east"),
)


def origin_in_words(shape: Sequence[tuple[float, float]]) -> str:
    """Say where a lane comes from at its stop line: ``north-east``."""
    if len(shape) < 2:
        return "somewhere"
    (x, y), (end_x, end_y) = shape[-2:]
    return _COMPASS[round(degrees(atan2(y - end_y, x - end_x)) / 45) % 8]


def ways_in_words(ways: Iterable[tuple[str, str, bool]]) -> str:
    """Say which ways across a junction are green: ``mill and park, straight on and right``.

    Turns are named where not all from a place are green; who may only turn right comes last.

    Args:
        ways: from where, its direction (``s``, ``l``, ``r``), and whether it is green.
    """
    known: defaultdict[str, set[str]] = defaultdict(set)
    green: defaultdict[str, set[str]] = defaultdict(set)
    for start, turn, is_green in ways:
        known[start].add(turn)
        if is_green:
            green[start].add(turn)
    starts: defaultdict[str, list[str]] = defaultdict(list)
    for start in sorted(green, key=lambda each: green[each] == {"r"}):
        named = [word for turn, word in _TURNS.items() if turn in green[start]]
        starts["" if green[start] == known[start] else ", " + " and ".join(named)].append(start)
    return "; ".join(" and ".join(names) + turns for turns, names in starts.items())
