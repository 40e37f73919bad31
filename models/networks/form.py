"""The form of a network file: a road network's controlled junctions, as its user brings them.

Only ids, phases and lanes are needed to serve a policy. What else is known (states of the signals,
positions, intergreen times) serves those who draw, check or simulate, and may be left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

MAX_JUNCTIONS = 100_000
MAX_PHASES = 64
MAX_LANES = 256
MAX_LINKS = 512
WALK_S = 7.0  # least walk of a crossing, as MUTCD recommends
VEHICLE_SPACE_M = 7.5  # a standing passenger car and the gap before it, SUMO's defaults

ID_MARKS, LONGEST_ID = "_.:#()+/-", 200
Name = Annotated[str, Field(pattern=rf"^[A-Za-z0-9{ID_MARKS}]{{1,{LONGEST_ID}}}$")]
Point = tuple[float, float]
State = Annotated[str, Field(pattern=r"^[GgrsuoOyY]+$", max_length=MAX_LINKS)]


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def road_of(lane: str) -> str:
    """Return the road of a lane that is named ROAD_NUMBER, as in SUMO, or else the lane."""
    road, _, number = lane.rpartition("_")
    return road if number.isdecimal() else lane


class DetectorLimits(_Form):
    """When a detector counts as failed, in the manner of NTCIP 1202; 0 turns a diagnosis off.

    Attributes:
        no_activity: arrivals that an average lane of the junction would have had during the red
            in which this one reads zero. It depends on the lane's share of the traffic.
        stuck: the same reading above zero, as a share of the lane's capacity, summed over requests
            in the lane's green: 12 is half a lane through 24 requests.
        erratic: rises by more than ``jump``, less one for each 60 requests.
        jump: vehicles, more than can arrive from one request to the next.
        frozen: requests through which no detector of the junction changes; twice as many while all
            read zero, as the junction may be empty.
        recall: requests in red after which a lane that reads zero is assumed to have a queue.
        forgiven: changes, without another failure, after which a detector is trusted again.
    """

    no_activity: int = Field(default=0, ge=0, le=1_000_000)
    stuck: int = Field(default=12, ge=0, le=1_000_000)
    erratic: int = Field(default=4, ge=0, le=1000)
    jump: float = Field(default=12, gt=0, le=100_000)
    frozen: int = Field(default=180, ge=0, le=1_000_000)
    recall: int = Field(default=48, ge=0, le=1_000_000)
    forgiven: int = Field(default=20, ge=1, le=1_000_000)


class LaneBehind(_Form):
    """A lane that leads to a short incoming lane.

    Attributes:
        lane: its id.
        share: of its vehicles that count there.
    """

    lane: Name
    share: float = Field(default=1, gt=0, le=1)


class Lane(_Form):
    """An incoming lane.

    Attributes:
        id: as in SUMO's network, where there is one.
        capacity: vehicles that can queue on it, and on what is behind it.
        behind: lanes that a queue on it reaches soon.
        shape: points in metres in the direction of travel, y northwards.
        detector: the limits that differ from the network's; ``frozen`` and ``recall`` do not.
    """

    id: Name
    capacity: float = Field(gt=0, le=100_000)
    behind: tuple[LaneBehind, ...] | None = None
    shape: tuple[Point, ...] | None = None
    detector: DetectorLimits | None = None

    def count(self, vehicles: Callable[[str], float]) -> float:
        """Return how many of the vehicles on each lane are on the way to this one's stop line."""
        behind = sum(each.share * vehicles(each.lane) for each in self.behind or ())
        return vehicles(self.id) + behind


class Phase(_Form):
    """A green phase.

    Attributes:
        state: a letter for each link in SUMO's notation; G and g are green.
        name: what is green, in words.
    """

    state: State | None = None
    name: str | None = Field(default=None, max_length=200)


class Link(_Form):
    """A way across the junction.

    Attributes:
        index: its place in the states, which ways can share; as in the list, where none has one.
        lane: id of the incoming lane; of one that is not controlled here too.
        to: the lane that it leads to.
        turn: direction as SUMO has it: s, l, r, t (back), L and R (partly).
        shape: of a pedestrian crossing, points in metres.
        walk_s: least green of a pedestrian crossing, WALK_S where the file does not say; None for
            vehicles.
        yellow_s: after the green; None for the 3 s of a road with 50 km/h.
    """

    lane: Name
    to: Name
    turn: Literal["s", "l", "r", "t", "L", "R"] = "s"
    index: int | None = Field(default=None, ge=0, lt=MAX_LINKS)
    shape: tuple[Point, ...] | None = None
    walk_s: float | None = Field(default=None, ge=1, le=60)
    yellow_s: int | None = Field(default=None, ge=3, le=6)

    @property
    def crossing(self) -> str | None:
        """The crossing that people walk over, as SUMO names its edge; None for vehicles."""
        if self.lane[0] == self.to[0] == ":":  # from a walking area
            return self.to.rpartition("_")[0]
        return None if self.walk_s is None else self.to


class Detector(_Form):
    """An induction loop, or a zone of a radar or a camera.

    Attributes:
        id: as in the readings; different within the junction.
        kind: whether it is at the stop line, or in advance of it.
        lanes: incoming lanes that it covers, which share what it reads.
        distance_m: from the stop line to its nearer end.
        length_m: in the direction of travel.
    """

    id: Name
    kind: Literal["stop_line", "advance"]
    lanes: tuple[Name, ...] = Field(min_length=1, max_length=MAX_LANES)
    distance_m: float = Field(default=0, ge=0, le=1000)
    length_m: float = Field(default=2, gt=0, le=100)

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        if twice := _twice(self.lanes):
            raise ValueError(f"detector {self.id!r} names lane {twice} twice")
        if self.kind == "advance" and not self.distance_m:
            raise ValueError(
                f"advance detector {self.id!r} needs distance_m, metres to the stop line"
            )
        return self


class JunctionEntry(_Form):
    """One controlled junction.

    Attributes:
        id: as in requests.
        agent_index: its place in the policy's one-hot; the indices of a file are 0 to n - 1.
        phases: the green phases that the actions 0, 1, ... select.
        lanes: incoming lanes in the order of the observation.
        name: for people.
        position: in metres, y northwards.
        links: connections across the junction; None if unknown.
        intergreen_s: seconds from the end of green at one place of the states (row) to the
            beginning of green at another (column); null if the two do not meet.
        conflicts: pairs of places whose vehicles can meet; None to derive them from intergreen_s.
        detectors: devices from whose readings :mod:`models.signals.detection` makes observations.
    """

    id: Name
    agent_index: int = Field(ge=0, lt=MAX_JUNCTIONS)
    phases: tuple[Phase, ...] = Field(min_length=1, max_length=MAX_PHASES)
    lanes: tuple[Lane, ...] = Field(min_length=1, max_length=MAX_LANES)
    name: str | None = Field(default=None, min_length=1, max_length=100)
    position: Point | None = None
    links: tuple[Link, ...] | None = Field(default=None, max_length=MAX_LINKS)
    intergreen_s: tuple[tuple[int | None, ...], ...] | None = None
    conflicts: tuple[tuple[int, int], ...] | None = None
    detectors: tuple[Detector, ...] = ()

    @model_validator(mode="after")
    def _agree_with_itself(self) -> Self:
        if twice := _twice(lane.id for lane in self.lanes):
            raise ValueError(f"lane {twice} stands there twice")
        self._check_states()
        if self.intergreen_s is not None:
            self._check_intergreen(self.intergreen_s)
        if self.conflicts is not None:
            self._check_conflicts(self.conflicts)
        self._check_detectors()
        return self

    def _check_states(self) -> None:
        states = [phase.state for phase in self.phases if phase.state is not None]
        if states and len(states) < len(self.phases):
            raise ValueError("either all phases have a state or none")
        if len({len(state) for state in states}) > 1:
            raise ValueError("the states of the phases differ in length")
        for number, state in enumerate(states):
            if not set(state) & set("Gg"):
                raise ValueError(f"phase {number} has no green")
        if self.links is None:
            return
        known = {link.lane for link in self.links}
        for lane in self.lanes:
            if lane.id not in known:
                raise ValueError(f"no link begins on lane {lane.id}")
        if not states:
            self._places(self.links, states)
            return
        for lane, green in zip(self.lanes, self.phases_of_lanes(), strict=True):
            if not green:
                raise ValueError(f"no phase gives green to lane {lane.id}")

    def phases_of_lanes(self) -> tuple[frozenset[int], ...]:
        """Return for each lane the phases in which it is green, all or in part.

        Raises:
            ValueError: the states of the phases or the links are unknown.
        """
        states = [phase.state for phase in self.phases if phase.state is not None]
        if not states or self.links is None:
            raise ValueError(
                f"junction {self.id} has no states of its phases, or no links, without which its"
                " detectors cannot be diagnosed"
            )
        green: dict[str, set[int]] = {lane.id: set() for lane in self.lanes}
        for link, place in zip(self.links, self._places(self.links, states), strict=True):
            green.get(link.lane, set()).update(
                phase for phase, state in enumerate(states) if state[place] in "Gg"
            )
        return tuple(frozenset(green[lane.id]) for lane in self.lanes)

    def _places(self, links: tuple[Link, ...], states: list[str]) -> list[int]:
        indices = [link.index for link in links if link.index is not None]
        if not indices:
            if states and len(states[0]) != len(links):
                raise ValueError(f"states of {len(states[0])} letters for {len(links)} links")
            return list(range(len(links)))
        if len(indices) < len(links):
            raise ValueError("either all links have an index or none")
        if states and max(indices) >= len(states[0]):
            raise ValueError(f"states of {len(states[0])} letters, and a link {max(indices)}")
        return indices

    @property
    def placed_links(self) -> tuple[tuple[int, Link], ...]:
        """The links, each with its place in the states."""
        links = enumerate(self.links or ())
        return tuple((at if link.index is None else link.index, link) for at, link in links)

    @property
    def crossings(self) -> tuple[str, ...]:
        """The pedestrian crossings, in the order of the links."""
        crossings = (link.crossing for link in self.links or ())
        return tuple(dict.fromkeys(each for each in crossings if each is not None))

    @property
    def n_places(self) -> int:
        """Letters in a state, 0 if neither states nor links are known."""
        return len(self.phases[0].state or self.links or "")

    def _check_intergreen(self, matrix: tuple[tuple[int | None, ...], ...]) -> None:
        size = self.n_places
        if not size:
            raise ValueError("intergreen_s needs links, or phases with states")
        if len(matrix) != size or any(len(row) != size for row in matrix):
            raise ValueError(f"intergreen_s must be {size} by {size}, as there are links")
        if any(cell is not None and not 0 <= cell <= 60 for row in matrix for cell in row):
            raise ValueError("intergreen_s has times that are not from 0 to 60 s")

    def _check_conflicts(self, pairs: tuple[tuple[int, int], ...]) -> None:
        for first, second in pairs:
            if not (0 <= first < self.n_places and 0 <= second < self.n_places):
                raise ValueError(f"conflicts names links {first} and {second}, which do not exist")

    def _check_detectors(self) -> None:
        if twice := _twice(each.id for each in self.detectors):
            raise ValueError(f"two detectors have the id {twice}")
        lanes = {lane.id for lane in self.lanes}
        placed: dict[tuple[str, str], Detector] = {}
        for detector in self.detectors:
            for lane in detector.lanes:
                if lane not in lanes:
                    raise ValueError(
                        f"detector {detector.id!r} names lane {lane!r}, which the junction does not"
                        " have"
                    )
                other = placed.setdefault((lane, detector.kind), detector)
                if other is not detector:
                    raise ValueError(
                        f"lane {lane!r} has two {detector.kind} detectors, {other.id!r} and"
                        f" {detector.id!r}; declare them as one"
                    )
        for (lane, kind), detector in placed.items():
            stop_line = placed.get((lane, "stop_line"))
            if kind == "advance" and stop_line and detector.distance_m <= stop_line.distance_m:
                raise ValueError(
                    f"advance detector {detector.id!r} is not farther from the stop line than"
                    f" {stop_line.id!r}"
                )


class NetworkFile(_Form):
    """A road network.

    Attributes:
        format: of the file.
        name: of the network, for people.
        pedestrian_calls: whether an observation ends with a value for each crossing: how long its
            call has been waiting.
        red_yellow_s: seconds in which vehicles are shown red and yellow before their green.
        program: id of the programs of the SUMO net that it was made of, where it has several; None
            for each signal's last one.
        remarks: what the import left out or merged, for people.
        junctions: in any order.
        detectors: limits of all detectors, from which a lane's may differ.
    """

    format: Literal[1] = 1
    name: str = Field(min_length=1, max_length=100)
    pedestrian_calls: bool = False
    red_yellow_s: int = Field(default=0, ge=0, le=2)
    program: str | None = Field(default=None, max_length=200)
    remarks: tuple[str, ...] = ()
    junctions: tuple[JunctionEntry, ...] = Field(min_length=1, max_length=MAX_JUNCTIONS)
    detectors: DetectorLimits = DetectorLimits()

    @model_validator(mode="after")
    def _count_junctions(self) -> Self:
        if twice := _twice(junction.id for junction in self.junctions):
            raise ValueError(f"junction {twice} stands there twice")
        indices = [junction.agent_index for junction in self.junctions]
        if twice := _twice(indices):
            raise ValueError(f"two junctions have agent_index {twice}")
        if missing := set(range(len(indices))) - set(indices):
            raise ValueError(
                f"agent_index must be 0 to {len(indices) - 1}; {min(missing)} is missing"
            )
        return self


def _twice(values: Any) -> Any:
    """Return a value that comes more than once, None (or a false value) if there is none."""
    return next((repr(value) for value, n in Counter(values).items() if n > 1), None)
