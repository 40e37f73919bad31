"""A network as it is drawn: what its file leaves out is laid out, so that every junction is shown.

Roads are those that lead to a junction, as a network file describes no others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from math import ceil, cos, sin, sqrt, tau

from models.maps.phases_in_words import origin_in_words
from models.networks.form import JunctionEntry, NetworkFile, Point, road_of

MAX_DRAWN = 200
BLOCK_M = 300.0  # between junctions whose positions are unknown
ARM_M, GAP_M = 100.0, 12.0  # of a lane whose shape is unknown, from its junction
NAME_LENGTH = 24


@dataclass(frozen=True)
class DrawnLane:
    """A lane in the direction of travel."""

    id: str
    shape: tuple[Point, ...]


@dataclass(frozen=True)
class Road:
    """A one-way carriageway to a junction; points are in metres, y grows northwards."""

    id: str
    start: Point
    end: Point
    start_name: str
    lanes: tuple[DrawnLane, ...]


@dataclass(frozen=True)
class Approach:
    """An incoming lane of a junction.

    Attributes:
        lane: its id.
        greens: a letter for each green phase: ``G`` where any way out of the lane is green, else
            ``r``; ``?`` if unknown.
    """

    lane: str
    greens: str


@dataclass(frozen=True)
class SignalisedJunction:
    """A junction with signals.

    Attributes:
        name: for people.
        approaches: in the order of the observation.
        phases: where each green phase lets vehicles go from, in words.
    """

    id: str
    name: str
    place: Point
    approaches: tuple[Approach, ...]
    phases: tuple[str, ...]


@dataclass(frozen=True)
class RoadMap:
    """What a map is drawn from.

    Attributes:
        left_out: how many junctions are not drawn, as they are too many.
    """

    roads: tuple[Road, ...]
    junctions: tuple[SignalisedJunction, ...]
    left_out: int = 0


def road_map_of(network: NetworkFile) -> RoadMap:
    """Return the map of the first MAX_DRAWN junctions, by their agent indices."""
    ordered = sorted(network.junctions, key=lambda each: each.agent_index)
    drawn = ordered[:MAX_DRAWN]
    places = dict(zip([each.id for each in drawn], _places(drawn), strict=True))
    return RoadMap(
        roads=tuple(road for each in drawn for road in _roads(each, places[each.id])),
        junctions=tuple(
            SignalisedJunction(
                each.id,
                _short(each.name or each.id),
                places[each.id],
                tuple(Approach(lane.id, _greens(each, lane.id)) for lane in each.lanes),
                tuple(phase.name or f"phase {number}" for number, phase in enumerate(each.phases)),
            )
            for each in drawn
        ),
        left_out=len(ordered) - len(drawn),
    )


def _places(junctions: list[JunctionEntry]) -> Iterator[Point]:
    """Yield where junctions are: as the file says, amid their stop lines, or in rows of blocks."""
    columns = ceil(sqrt(len(junctions)))
    for number, junction in enumerate(junctions):
        ends = [lane.shape[-1] for lane in junction.lanes if lane.shape]
        if junction.position is not None:
            yield junction.position
        elif ends:
            yield sum(x for x, _ in ends) / len(ends), sum(y for _, y in ends) / len(ends)
        else:
            yield BLOCK_M * (number % columns), -BLOCK_M * (number // columns)


def _roads(junction: JunctionEntry, place: Point) -> Iterator[Road]:
    """Yield a road for each group of lanes of one SUMO edge; such a lane is named EDGE_NUMBER."""
    shapes = {
        lane.id: lane.shape if lane.shape and len(lane.shape) > 1 else _arm(place, turn, junction)
        for turn, lane in enumerate(junction.lanes)
    }
    for _, group in groupby(
        junction.lanes, key=lambda lane: road_of(lane.id) if lane.shape else lane.id
    ):
        lanes = tuple(DrawnLane(lane.id, shapes[lane.id]) for lane in group)
        start = lanes[0].shape[0]
        origin = origin_in_words(lanes[0].shape)
        yield Road(lanes[0].id, start, place, origin, lanes)


def _arm(place: Point, turn: int, junction: JunctionEntry) -> tuple[Point, ...]:
    angle = tau * turn / len(junction.lanes)
    (x, y), (east, north) = place, (cos(angle), sin(angle))
    return tuple((x + east * far, y + north * far) for far in (ARM_M, GAP_M))


def _greens(junction: JunctionEntry, lane: str) -> str:
    places = [place for place, link in junction.placed_links if link.lane == lane]
    return "".join(
        "?"
        if phase.state is None or not places
        else "G"
        if any(phase.state[place] in "Gg" for place in places)
        else "r"
        for phase in junction.phases
    )


def _short(name: str) -> str:
    return name if len(name) <= NAME_LENGTH else f"{name[: NAME_LENGTH - 1]}…"
