"""Green phases in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

_TURNS = {"s": "straight on", "l": "left", "r": "right"}  # as netconvert names directions


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
