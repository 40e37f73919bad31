"""Records of a junction: what its detectors observe, its lamps show and its loops detect.

A record is a line of JSON, or a row of a CSV with the same names, and has one of:

- ``observation``: the numbers of a decision, the phase that the controller shows first; with
  ``shown`` if the controller knows for how long it has been green and its other phases red;
- ``state``: the lamps from now on, a letter for each link as in SUMO;
- ``lane`` and ``occupied``: a vehicle has reached or left the lane's loop.

``time`` is in seconds since 1970, or in ISO 8601 with its zone.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from models.networks.network import Junction, Network, lane_names

MAX_TIME_S = 1e11
LONGEST_CELL = 2**31 - 1  # so that no cell of a malformed row ends the reading

Seconds = Annotated[float, Field(ge=0, le=MAX_TIME_S, allow_inf_nan=False)]
Number = Annotated[float, Field(allow_inf_nan=False)]


def _seconds(value: object) -> object:
    """Return the seconds of a time in ISO 8601; other values as they are."""
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError("a time of day needs its zone, such as 2026-03-01T07:30:00+01:00")
    return moment.timestamp()


def _numbers(value: object) -> object:
    """Split the numbers of a CSV's cell at its spaces."""
    return value.split() if isinstance(value, str) else value


class Shown(BaseModel):
    """What a junction shows, as a request to the gateway has it."""

    model_config = ConfigDict(frozen=True)

    phase: int = Field(ge=0)
    green_s: Number = Field(alias="greenSeconds")
    red_s: tuple[Seconds, ...] = Field(alias="redSeconds")


class Record(BaseModel):
    """A record. Members that are not known are ignored."""

    model_config = ConfigDict(frozen=True)

    time: Annotated[Seconds, BeforeValidator(_seconds)]
    junction: str
    observation: Annotated[tuple[Number, ...], BeforeValidator(_numbers)] | None = None
    shown: Shown | None = None
    state: str | None = None
    lane: str | None = None
    occupied: bool | None = None


class Malformed(NamedTuple):
    """Why a line is not a record."""

    reason: str


class RecordForm:
    """Checks records against a network.

    Args:
        vehicle_counts: whether observations have vehicles in place of shares of the lanes.
    """

    def __init__(self, network: Network, vehicle_counts: bool = False) -> None:
        self._network = network
        self._lanes = {name: frozenset(lanes) for name, lanes in lane_names(network).items()}
        self._n_links = (
            {each.id: len(each.phases[0].state or "") for each in network.file.junctions}
            if network.file
            else {}
        )
        self._vehicle_counts = vehicle_counts

    def read_lines(self, lines: Iterable[str]) -> Iterator[tuple[int, Record | Malformed]]:
        """Yield number and record of each line of JSON; empty lines are skipped."""
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield number, self.read(line)

    def read_csv(self, lines: Iterable[str]) -> Iterator[tuple[int, Record | Malformed]]:
        """Yield number and record of each row of a CSV; empty cells are left out."""
        csv.field_size_limit(LONGEST_CELL)
        rows = csv.DictReader(lines)
        for row in rows:
            yield rows.line_num, self.read({name: cell for name, cell in row.items() if cell})

    def read(self, value: str | Mapping[str, Any]) -> Record | Malformed:
        """Return the record of a line of JSON or of a row, or why it is not one."""
        try:
            if isinstance(value, str):
                record = Record.model_validate_json(value)
            else:
                record = Record.model_validate(value)
            return self.check(record)
        except ValueError as error:
            return Malformed(mistake_of(error))

    def check(self, record: Record) -> Record:
        """Return a record of this network, with shares in its observation.

        Raises:
            ValueError: the record does not fit the network; one sentence.
        """
        junction = self._network.junctions.get(record.junction)
        if junction is None:
            raise ValueError(f"the network has no junction {record.junction[:100]!r}")
        kinds = (record.observation, record.state, record.lane)
        if sum(kind is not None for kind in kinds) != 1:
            raise ValueError("a record has one of observation, state and lane")
        if record.observation is not None:
            return self._observed(record, record.observation, junction)
        if record.lane is None:
            n_links = self._n_links.get(junction.id)
            if n_links and len(record.state or "") != n_links:
                raise ValueError(f"state must have {n_links} letters at junction {junction.id}")
        elif record.lane not in self._lanes[junction.id]:
            raise ValueError(f"junction {junction.id} has no lane {record.lane[:100]!r}")
        elif record.occupied is None:
            raise ValueError("a record of a lane needs occupied, true or false")
        return record

    def _observed(
        self, record: Record, observation: tuple[float, ...], junction: Junction
    ) -> Record:
        n_phases = junction.n_phases
        if len(observation) != junction.obs_size:
            raise ValueError(
                f"observation has {len(observation)} numbers, junction {junction.id} needs"
                f" {junction.obs_size}"
            )
        head = observation[:n_phases]
        if sorted(head) != [0.0] * (n_phases - 1) + [1.0]:
            raise ValueError(f"observation must begin with a 1 for one of its {n_phases} phases")
        shown = record.shown
        if shown is not None and (shown.phase >= n_phases or len(shown.red_s) != n_phases):
            raise ValueError(f"shown must fit the {n_phases} phases of junction {junction.id}")
        if not self._vehicle_counts:
            return record
        return record.model_copy(update={"observation": tuple(junction.normalized(observation))})


def mistake_of(error: ValueError) -> str:
    """Return what is wrong with a value, in one line."""
    if not isinstance(error, ValidationError):
        return str(error)
    mistake = error.errors(include_url=False)[0]
    place = ".".join(map(str, mistake["loc"]))
    reason = mistake["msg"].removeprefix("Value error, ")
    return f"{place}: {reason}" if place else reason
