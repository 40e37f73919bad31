"""High-resolution controller logs: rows of time, device, event and parameter.

The codes are those of Sturdevant and others, Indiana Traffic Signal Hi Resolution Data Logger
Enumerations, 2012, https://doi.org/10.4231/K4RN35SH. SPLIT is not among them: with the phase added,
it is what MAXTIME controllers log at the end of a phase, with its seconds as the parameter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from lab.shadow.lamps import Stages
from lab.shadow.log import Entry, Segment, ShadowLogError
from lab.tables import write_csv
from models.networks.form import JunctionEntry
from models.networks.network import Network
from models.signals.states import MIN_GREEN_S

PHASE_ON, BEGIN_GREEN, MIN_COMPLETE = 0, 1, 3
GAP_OUT, MAX_OUT, FORCE_OFF, END_GREEN = 4, 5, 6, 7
BEGIN_YELLOW, END_YELLOW, BEGIN_RED_CLEARANCE, END_RED_CLEARANCE, PHASE_OFF = 8, 9, 10, 11, 12
BEGIN_WALK, BEGIN_WALK_CLEARANCE, BEGIN_DONT_WALK = 21, 22, 23
DETECTOR_OFF, DETECTOR_ON = 81, 82
CLOCK_UPDATED = 181
SPLIT = 300

RESOLUTION_S = 0.1  # of the logs; a clearance of 0 s would end in the moment of its beginning
MAX_PHASE, MAX_SPLIT = 16, 15
ADVANCE = "Advance"  # detectors of arrivals, for atspm
EVENTS, DETECTORS, PHASES = "events.csv", "detectors.csv", "phases.csv"
_NEMA = re.compile(r"(\d+(?:\+\d+)?)(?::|$)")


class Event(NamedTuple):
    """A row of the log; its time in seconds since 1970."""

    time_s: float
    device: int
    event: int
    parameter: int


class Detector(NamedTuple):
    """The detector of a lane, and the phase whose arrivals it sees."""

    device: int
    junction: str
    lane: str
    parameter: int
    phase: int


class Numbering:
    """How the log names a junction's phases and detectors.

    The device is the agent index + 1, and a detector's parameter its lane's place + 1. Phases that
    the network file calls by numbers, such as ``2+6``, keep these: a number is green in every phase
    that names it. All others have the number of the action + 1.

    Attributes:
        phases: by action, the numbers that are green.
        detectors: of all lanes.

    Raises:
        ShadowLogError: the network file has no states, or more phases than a log can name.
    """

    def __init__(self, junction: JunctionEntry) -> None:
        self.junction, self.device = junction, junction.agent_index + 1
        named = [_NEMA.match(phase.name or "") for phase in junction.phases]
        self.phases = [
            tuple(map(int, match[1].split("+"))) if match and all(named) else (action + 1,)
            for action, match in enumerate(named)
        ]
        highest = max(max(numbers) for numbers in self.phases)
        if highest > MAX_PHASE:
            raise ShadowLogError(
                f"junction {junction.id} has a phase {highest}, event logs have 1 to {MAX_PHASE}"
            )
        if not junction.n_places or junction.phases[0].state is None:
            raise ShadowLogError(f"junction {junction.id} has no states of its phases")
        self.detectors = tuple(
            Detector(self.device, junction.id, lane.id, place, self._phase_of(lane.id))
            for place, lane in enumerate(junction.lanes, 1)
        )

    def _phase_of(self, lane: str) -> int:
        """Return the number of the phase in which most ways of a lane are green."""
        places = [place for place, link in self.junction.placed_links if link.lane == lane]
        ways = [
            sum((phase.state or "")[place] in "Gg" for place in places)
            for phase in self.junction.phases
        ]
        numbers = self.phases[ways.index(max(ways))]
        return max(numbers, key=lambda number: len(self.greens[number].intersection(places)))

    @cached_property
    def greens(self) -> dict[int, frozenset[int]]:
        """The links that are green whenever a number is."""
        stages = Stages(self.junction).greens
        common: dict[int, frozenset[int]] = {}
        for numbers, links in zip(self.phases, stages, strict=True):
            for number in numbers:
                common[number] = common.get(number, links) & links
        return common


def events_of(
    log: Iterable[Segment | Entry], network: Network, max_green_s: float | None = None
) -> list[Event]:
    """Return the events of a log with states of the lamps, in the order of their time.

    Args:
        max_green_s: of an actuated controller: a green of this length is ended by a max-out, a
            shorter one by a gap-out. None for a controller that ends greens otherwise: all end by a
            force-off.

    Raises:
        ShadowLogError: the network file has no states, or the log has no record with one.
    """
    assert network.file is not None
    numberings = {each.id: Numbering(each) for each in network.file.junctions}
    detectors = {
        (each.junction, each.lane): each
        for numbering in numberings.values()
        for each in numbering.detectors
    }
    events: list[Event] = []
    signals: dict[str, _Signal] = {}
    jumped = has_states = False
    for each in log:
        if isinstance(each, Segment):
            signals = {name: _Signal(one, max_green_s) for name, one in numberings.items()}
            jumped = each.segment > 1
            continue
        if jumped:
            devices = (numbering.device for numbering in numberings.values())
            events += [Event(each.time, device, CLOCK_UPDATED, 0) for device in devices]
            jumped = False
        if each.state is not None:
            has_states = True
            events += signals[each.junction].show(each.time, each.state)
        elif each.lane is not None:
            detector = detectors[each.junction, each.lane]
            event = DETECTOR_ON if each.occupied else DETECTOR_OFF
            events.append(Event(each.time, detector.device, event, detector.parameter))
    if not has_states:
        raise ShadowLogError("no record has the state of the lamps, from which the events are made")
    return sorted(events, key=lambda event: event.time_s)


class _Signal:
    """The phases of one junction in a segment. What is green at its begin is left out."""

    def __init__(self, numbering: Numbering, max_green_s: float | None) -> None:
        self._numbering, self._stages = numbering, Stages(numbering.junction)
        walks = {at for at, link in numbering.junction.placed_links if link.crossing}
        clearance_s = _clearances_s(numbering.junction)
        self._phases = [
            _Phase(
                number, links, max_green_s, {at: clearance_s[at] for at in sorted(links & walks)}
            )
            for number, links in numbering.greens.items()
        ]

    def show(self, time_s: float, state: str) -> Iterator[Event]:
        stage = self._stages.shown(state)
        numbers = () if stage is None else self._numbering.phases[stage]
        for phase in self._phases:
            is_served = phase.number in numbers
            for event in phase.show(time_s, state, is_served, stage is not None):
                yield Event(event[0], self._numbering.device, *event[1:])


class _Phase:
    """Makes the events of one phase: green, yellow, red clearance, and walk."""

    def __init__(
        self,
        number: int,
        links: frozenset[int],
        max_green_s: float | None,
        clearance_s: Mapping[int, float],
    ) -> None:
        self.number, self._links, self._max_green_s = number, links, max_green_s
        self._walk_clearance_s = clearance_s
        self._interval: int | None = None  # the event that began it; not known at first
        self._green_s = self._red_s = 0.0  # when they began
        self._walks = False

    def show(
        self, time_s: float, state: str, is_served: bool, is_stage: bool
    ) -> Iterator[tuple[float, int, int]]:
        number = self.number
        if self._interval is None and not is_served:
            self._interval = PHASE_OFF
        stays = not is_stage and all(state[at] in "Gg" for at in self._links)
        if self._walks and any(state[at] not in "Gg" for at in self._walk_clearance_s):
            self._walks = False
            yield time_s, BEGIN_WALK_CLEARANCE, number
            yield time_s + max(self._walk_clearance_s.values()), BEGIN_DONT_WALK, number
        if self._interval == BEGIN_GREEN and not is_served and not stays:
            yield from self._end_green(time_s)
        if self._interval == BEGIN_YELLOW and all(state[at] not in "yY" for at in self._links):
            self._interval, self._red_s = BEGIN_RED_CLEARANCE, time_s
            yield time_s, END_YELLOW, number
            yield time_s, BEGIN_RED_CLEARANCE, number
        if self._interval == BEGIN_RED_CLEARANCE and is_stage:
            self._interval = PHASE_OFF
            yield max(time_s, self._red_s + RESOLUTION_S), END_RED_CLEARANCE, number
            yield time_s, PHASE_OFF, number
            if number <= MAX_SPLIT:
                yield time_s, SPLIT + number, round(time_s - self._green_s)
        if self._interval == PHASE_OFF and is_served:
            self._interval, self._green_s = BEGIN_GREEN, time_s
            yield time_s, PHASE_ON, number
            yield time_s, BEGIN_GREEN, number
            if self._walk_clearance_s:
                self._walks = True
                yield time_s, BEGIN_WALK, number

    def _end_green(self, time_s: float) -> Iterator[tuple[float, int, int]]:
        self._interval = BEGIN_YELLOW
        green_s = time_s - self._green_s
        reason = FORCE_OFF
        if self._max_green_s is not None:
            reason = MAX_OUT if green_s >= self._max_green_s else GAP_OUT
        if green_s >= MIN_GREEN_S:
            yield self._green_s + MIN_GREEN_S, MIN_COMPLETE, self.number
        for event in (reason, END_GREEN, BEGIN_YELLOW):
            yield time_s, event, self.number


def _clearances_s(junction: JunctionEntry) -> dict[int, float]:
    """Return for each letter the longest time from the end of its green to another green."""
    matrix = junction.intergreen_s or ()
    return {
        at: max((seconds or 0 for row in matrix[at : at + 1] for seconds in row), default=0)
        for at in range(junction.n_places)
    }


def write_events(
    events: Sequence[Event], network: Network, folder: Path, zone: tzinfo
) -> tuple[Path, ...]:
    """Write the files that the package ``atspm`` and people read: events, detectors and phases.

    Args:
        zone: of the times, which have none in the file.

    Raises:
        OSError: the folder cannot be written.
    """
    assert network.file is not None
    numberings = [Numbering(each) for each in network.file.junctions]
    tables: dict[str, tuple[str, Iterable[Sequence[object]]]] = {
        EVENTS: (
            "TimeStamp DeviceId EventId Parameter",
            ((_time_stamp(each.time_s, zone), *each[1:]) for each in events),
        ),
        DETECTORS: (
            "DeviceId Phase Parameter Function Junction Lane",
            (
                (each.device, each.phase, each.parameter, ADVANCE, each.junction, each.lane)
                for numbering in numberings
                for each in numbering.detectors
            ),
        ),
        PHASES: (
            "DeviceId Junction Action Phases Name State",
            (row for each in numberings for row in _phases(each)),
        ),
    }
    for name, (head, rows) in tables.items():
        write_csv(folder / name, head.split(), rows)
    return tuple(folder / name for name in tables)


def _phases(numbering: Numbering) -> Iterator[tuple[object, ...]]:
    junction = numbering.junction
    for action, phase in enumerate(junction.phases):
        numbers = "+".join(map(str, numbering.phases[action]))
        yield numbering.device, junction.id, action, numbers, phase.name, phase.state


def _time_stamp(time_s: float, zone: tzinfo) -> str:
    time = datetime.fromtimestamp(time_s, zone)
    return f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond // 1000:03}"
