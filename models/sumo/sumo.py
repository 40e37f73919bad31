"""What a SUMO network says about its signals."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from models.networks.form import Point

VEHICLE_SPACE_M = 7.5  # a standing passenger car and the gap before it, SUMO's defaults


@dataclass(frozen=True)
class SumoLane:
    """A lane between junctions, or inside one; points in metres in the direction of travel."""

    id: str
    edge: str
    length_m: float
    shape: tuple[Point, ...]

    @property
    def capacity(self) -> float:
        """Vehicles that can queue on it."""
        return self.length_m / VEHICLE_SPACE_M


@dataclass(frozen=True)
class SumoLink:
    """A connection that a signal controls.

    Attributes:
        index: its place in the signal's states.
        lane, to: ids of lanes.
        to_edge: that it leads to.
        turn: s, l, r, t, L or R.
        via: the first lane inside the junction, None for a net without inner lanes.
        walked: whether it is a pedestrian crossing.
    """

    index: int
    lane: str
    to: str
    to_edge: str
    turn: str
    via: str | None
    walked: bool


@dataclass(frozen=True)
class Program:
    """A signal's program: its kind (static, actuated, rail_signal, ...), and states with seconds.

    Attributes:
        phases: attributes as in the file; ``state`` and ``duration`` at least.
    """

    id: str
    kind: str
    offset: str
    phases: tuple[dict[str, str], ...]

    @property
    def states(self) -> tuple[str, ...]:
        return tuple(phase.get("state", "") for phase in self.phases)


@dataclass
class SumoNet:
    """Lanes by id, and by signal its links and programs, in the order of the file.

    Attributes:
        onwards: by inner lane, the inner lane that follows.
        places: of junctions.
        crossings: edges that people walk over.
        behind: by lane, those that lead to it where no signal decides.
        ahead: by lane, those that it leads to. Neither has ways back.
    """

    lanes: dict[str, SumoLane] = field(default_factory=dict)
    links: dict[str, list[SumoLink]] = field(default_factory=lambda: defaultdict(list))
    programs: dict[str, list[Program]] = field(default_factory=lambda: defaultdict(list))
    onwards: dict[str, str] = field(default_factory=dict)
    places: dict[str, Point] = field(default_factory=dict)
    crossings: set[str] = field(default_factory=set)
    behind: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    ahead: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def way(self, link: SumoLink) -> tuple[Point, ...]:
        """Return the points of a link across its junction, none where the net does not say."""
        points: list[Point] = []
        inner = link.to if link.walked else link.via
        while inner in self.lanes:
            points += self.lanes[inner].shape
            inner = self.onwards.get(inner) if not link.walked else None
        return tuple(points)
