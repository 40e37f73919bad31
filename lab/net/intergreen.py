"""Intergreen times: from the end of one movement's green to the beginning of another's.

Source: RiLSA (Richtlinien für Lichtsignalanlagen, FGSV, 2015), section 2.5: the last vehicle
crosses the stop line within the yellow, and has to have left the place where the ways meet before
the first one of the other movement can reach it. Pedestrians who begin to cross at the end of their
green have to reach the other side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import ceil

import numpy as np
from numpy.typing import NDArray

from lab.net.net import SumoLink, SumoNet
from models.networks.form import Point
from models.signals.signal import Matrix
from models.signals.states import YELLOW_S

LONGEST_S = 60  # that a network file allows
TURNS_LATE_S = 2.0  # last crossing after the green by who turns; others cross in all the yellow
CLEARS_AT = {False: 10.0, True: 7.0}  # m/s
ENTERS_AT = 40 / 3.6  # m/s, without having stopped
VEHICLE_M = 6.0  # that has to be out of the way with its end
WALKS_AT = 1.2  # m/s, of pedestrians who clear a crossing, unless the import says another speed
# VwV-StVO, on section 37: km/h that are allowed, and seconds of yellow.
YELLOWS_S = ((50, 3), (60, 4), (70, 5))
CLOSE_M = 2.5  # ways that come closer meet: the width of a vehicle and some air
BESIDE_M = 1.25  # half of that, between a vehicle's way and the edge of a crossing
STEP_M = 0.25


@dataclass(frozen=True)
class Way:
    """A signalised link across a junction, from its stop line to the lane that it leads to.

    Attributes:
        index: of the link in the signal's states.
        lane: that it comes from.
        edge: that it leads to.
        turns: whether it is driven slowly: to the left, to the right, back.
        shape: in metres; the first point is at the stop line.
        crossing_m: width of a pedestrian crossing, None for vehicles.
        yellow_s: yellow after its green.
    """

    index: int
    lane: str
    edge: str
    turns: bool
    shape: tuple[Point, ...]
    crossing_m: float | None = None
    yellow_s: int = YELLOW_S


def yellow_of(speed_limit: float) -> int:
    """Return the seconds of yellow for an approach, by its speed limit in m/s."""
    allowed = round(speed_limit * 3.6)
    return next((seconds for up_to, seconds in YELLOWS_S if allowed <= up_to), YELLOWS_S[-1][1])


def yellow_after(net: SumoNet, link: SumoLink) -> int:
    """Return the seconds of yellow after a link's green."""
    return YELLOW_S if link.walked else yellow_of(net.lanes[link.lane].speed_limit)


def intergreen_of(
    net: SumoNet,
    signal: str,
    links: Sequence[SumoLink],
    size: int,
    remark: Callable[[str, str], None],
    walks_at: float = WALKS_AT,
) -> Matrix | None:
    """Return seconds from the end of green at a letter (row) to the beginning at another (column).

    Return None, with a remark, if ways have no shape, or if ways are so long that a network file
    cannot hold the times.
    """
    ways = [
        Way(
            link.index,
            link.lane,
            link.to_edge,
            link.turn != "s",
            net.way(link),
            net.lanes[link.to].width_m if link.walked and link.to in net.lanes else None,
            yellow_after(net, link),
        )
        for link in links
    ]
    if not all(way.shape for way in ways):
        remark("no shapes", f"{signal}: no intergreen times, as its ways have no shapes.")
        return None
    times = intergreen_matrix(ways, walks_at)
    matrix: list[list[int | None]] = [[None] * size for _ in range(size)]
    for row, ending in zip(times, ways, strict=True):
        for time_s, beginning in zip(row, ways, strict=True):
            known = matrix[ending.index][beginning.index]
            if time_s is not None and ending.index != beginning.index:
                matrix[ending.index][beginning.index] = max(time_s, known or 0)
    if any(cell is not None and cell > LONGEST_S for row in matrix for cell in row):
        remark("too long", f"{signal}: no intergreen times, as some exceed {LONGEST_S} s.")
        return None
    return tuple(map(tuple, matrix))


def intergreen_matrix(ways: Sequence[Way], walks_at: float = WALKS_AT) -> Matrix:
    """Return seconds from the end of a way's green (row) to the beginning of another's (column).

    None where the two do not meet.
    """
    return _matrix_at_origin(_at_origin(ways), walks_at)


def _at_origin(ways: Sequence[Way]) -> tuple[Way, ...]:
    """Move ways to the origin and number lanes and edges: like junctions become equal."""
    left, below = next((way.shape[0] for way in ways), (0.0, 0.0))
    lanes, edges = [way.lane for way in ways], [way.edge for way in ways]
    moved = []
    for way in ways:
        # to micrometres, as equal distances differ in their last bits elsewhere in the city
        shape = tuple((round(x - left, 6), round(y - below, 6)) for x, y in way.shape)
        lane, edge = f"{lanes.index(way.lane)}", f"{edges.index(way.edge)}"
        moved.append(replace(way, lane=lane, edge=edge, shape=shape))
    return tuple(moved)


@lru_cache(maxsize=1024)
def _matrix_at_origin(ways: tuple[Way, ...], walks_at: float) -> Matrix:
    sampled = [(way, _sample(way.shape)) for way in ways]
    return tuple(
        tuple(_intergreen_s(*ending, *beginning, walks_at) for beginning in sampled)
        for ending in sampled
    )


def _intergreen_s(
    ending: Way,
    clears: NDArray[np.float64],
    beginning: Way,
    enters: NDArray[np.float64],
    walks_at: float,
) -> int | None:
    """Return whole seconds, never less than the yellow."""
    walked = [way.crossing_m for way in (ending, beginning) if way.crossing_m is not None]
    if ending.lane == beginning.lane or len(walked) == 2:  # one behind the other; people only
        return None
    close_m = walked[0] / 2 + BESIDE_M if walked else CLOSE_M
    apart_x, apart_y = (clears[:, None] - enters[None]).transpose(2, 0, 1)
    left, reached = np.nonzero(apart_x**2 + apart_y**2 < close_m**2)
    if ending.edge == beginning.edge:  # they merge, be it on neighbouring lanes
        left, reached = np.append(left, len(clears) - 1), np.append(reached, len(enters) - 1)
    if not len(left):
        return None
    if ending.crossing_m is not None:
        to_the_other_side_s = (len(clears) - 1) * STEP_M / walks_at
        return max(YELLOW_S, ceil(to_the_other_side_s - float(reached.min()) * STEP_M / ENTERS_AT))
    late_s = TURNS_LATE_S if ending.turns else ending.yellow_s
    clears_s = (left * STEP_M + VEHICLE_M) / CLEARS_AT[ending.turns]
    if beginning.crossing_m is not None:  # the next pedestrian may step off the kerb anywhere
        return max(ending.yellow_s, ceil(late_s + float(clears_s.max())))
    enters_s = reached * STEP_M / ENTERS_AT
    longest_s = float((clears_s - enters_s).max())  # of all places where they meet
    return max(ending.yellow_s, ceil(late_s + longest_s))


def _sample(shape: Sequence[Point]) -> NDArray[np.float64]:
    """Return (n, 2) points along a line, at most ``STEP_M`` apart, from end to end."""
    points = [np.array(shape[:1])]
    for start, end in pairwise(np.array(shape)):
        steps = ceil(np.hypot(*(end - start)) / STEP_M)
        points.append(start + (end - start) * np.arange(1, steps + 1)[:, None] / max(1, steps))
    return np.concatenate(points)
