"""Intergreen times of an imported signal, by the places of its states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from models.signals.crossing import Way
from models.signals.intergreen import Matrix, intergreen_matrix
from models.sumo.sumo import SumoLink, SumoNet

LONGEST_S = 60  # that a network file can say


def intergreen_of(
    net: SumoNet, signal: str, links: Sequence[SumoLink], size: int, say: Callable[[str, str], None]
) -> Matrix | None:
    """Return seconds from the end of green at a letter (row) to the beginning at another (column).

    None, and said, where ways have no shape, where people walk (the times are those of vehicles),
    or where ways are so long that no file can tell the times.
    """
    if any(link.walked for link in links):
        say("walked", f"{signal}: no intergreen times, as these are for vehicles alone.")
        return None
    ways = [
        Way(link.index, link.lane, link.to_edge, link.turn != "s", net.way(link)) for link in links
    ]
    if not all(way.shape for way in ways):
        say("no shapes", f"{signal}: no intergreen times, as its ways have no shapes.")
        return None
    times = _moved_to_origin(ways)
    matrix: list[list[int | None]] = [[None] * size for _ in range(size)]
    for row, ending in zip(times, ways, strict=True):
        for time_s, beginning in zip(row, ways, strict=True):
            known = matrix[ending.index][beginning.index]
            if time_s is not None and ending.index != beginning.index:
                matrix[ending.index][beginning.index] = max(time_s, known or 0)
    if any(cell is not None and cell > LONGEST_S for row in matrix for cell in row):
        say("too long", f"{signal}: no intergreen times, as some exceed {LONGEST_S} s.")
        return None
    return tuple(map(tuple, matrix))


def _moved_to_origin(ways: Sequence[Way]) -> Matrix:
    """Junctions that are built alike, as in a planned city or a grid, are reckoned once."""
    x, y = ways[0].shape[0]
    lanes: dict[str, str] = {}
    edges: dict[str, str] = {}
    return _times(
        tuple(
            Way(
                way.index,
                lanes.setdefault(way.lane, f"{len(lanes)}"),
                edges.setdefault(way.edge, f"{len(edges)}"),
                way.turns,
                tuple((round(px - x, 2), round(py - y, 2)) for px, py in way.shape),
            )
            for way in ways
        )
    )


@lru_cache(maxsize=1024)
def _times(ways: tuple[Way, ...]) -> Matrix:
    return intergreen_matrix(ways)
