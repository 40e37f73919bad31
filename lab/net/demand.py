"""A city's traffic as it is counted, read from tables in CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

HOUR_S = 3600
MOST_PER_HOUR = 20_000
"""More than ten lanes carry; SUMO would take hours for a mistyped count."""

EdgeId = Annotated[str, Field(min_length=1)]
Amount = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class InvalidDemandError(ValueError):
    """No routes can be made of it; one sentence."""


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
    KEY: ClassVar[tuple[str, ...]] = ("edge",)  # no two rows have the same


class Entry(_Row):
    """Vehicles that begin on an edge, in the hour if there is no profile."""

    edge: EdgeId
    vehicles_per_hour: Annotated[float, Field(ge=0, le=MOST_PER_HOUR, allow_inf_nan=False)]


class Exit(_Row):
    """An edge where trips end, and its weight among all exits that can be reached."""

    edge: EdgeId
    weight: Amount


class Turn(_Row):
    """What share of the vehicles on an edge drives on to another."""

    start: EdgeId = Field(alias="from")
    to: EdgeId
    share: Amount
    KEY = "start", "to"


class Level(_Row):
    """From a second of SUMO's clock on, the counts times a factor."""

    from_s: int
    factor: Amount
    KEY = ("from_s",)


RowType = TypeVar("RowType", bound=_Row)


def read_table(path: Path, row: type[RowType]) -> tuple[RowType, ...]:
    """Read a CSV with a line of names.

    Raises:
        InvalidDemandError: it cannot be read, is empty, or a row is wrong or there twice.
    """
    try:
        rows = _rows(path)
    except OSError as error:
        raise InvalidDemandError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, csv.Error) as error:
        raise InvalidDemandError(f"{path} is not a table: {error}") from error
    if not rows:
        raise InvalidDemandError(f"{path} has no rows.")
    read: dict[tuple[Any, ...], RowType] = {}
    for number, each in enumerate(rows, 1):
        known = _read(path, number, each, row)
        key = tuple(getattr(known, name) for name in row.KEY)
        if key in read:
            again = " to ".join(map(str, key))
            raise InvalidDemandError(f"{path}, row {number}: {again} is there twice.")
        read[key] = known
    return tuple(read.values())


def _rows(path: Path) -> Sequence[Mapping[Any, Any]]:
    text = path.read_text(encoding="utf-8-sig")  # spreadsheets begin a file with a mark
    head = text.partition("\n")[0]
    if "," not in head and (found := next((each for each in ";\t|" if each in head), "")):
        raise ValueError(f"its columns are separated by {found!r}; separate them by commas")
    return list(csv.DictReader(text.splitlines(), strict=True, skipinitialspace=True))


def _read(path: Path, number: int, values: Mapping[Any, Any], row: type[RowType]) -> RowType:
    if None in values:
        raise InvalidDemandError(f"{path}, row {number} has more cells than the line of names.")
    try:
        return row.model_validate(values)
    except ValidationError as error:
        mistake = error.errors(include_url=False)[0]
        column = ".".join(map(str, mistake["loc"])) or "row"
        raise InvalidDemandError(f"{path}, row {number}: {column}: {mistake['msg']}.") from error


@dataclass(frozen=True)
class Demand:
    """Counts, and what else is known.

    Attributes:
        turns: shares at some edges; elsewhere, as many as lanes lead there.
        exits: with weights; without, all of the net, by their lanes.
        levels: the profile of the day; without, the counts hold from begin to end.
        seed: of destinations, ways and departures.
    """

    entries: tuple[Entry, ...]
    turns: tuple[Turn, ...] = ()
    exits: tuple[Exit, ...] = ()
    levels: tuple[Level, ...] = ()
    begin_s: int = 0
    end_s: int = HOUR_S
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the times.

        Raises:
            InvalidDemandError: one sentence.
        """
        if self.end_s <= self.begin_s:
            raise InvalidDemandError(f"The end, {self.end_s} s, is not after {self.begin_s} s.")
        if self.turns and self.exits:
            raise InvalidDemandError("Say either turning shares or destinations.")
        starts = [level.from_s for level in self.levels]
        if starts != sorted(set(starts)):
            raise InvalidDemandError("The profile's seconds must ascend.")
        if starts and starts[0] > self.begin_s:
            raise InvalidDemandError(f"The profile begins after {self.begin_s} s.")

    def stretches(self) -> Iterator[tuple[int, int, float]]:
        """Yield begin, end and factor of each stretch of the profile."""
        levels = self.levels or (Level(from_s=self.begin_s, factor=1),)
        ends = [*(level.from_s for level in levels[1:]), self.end_s]
        for level, end_s in zip(levels, ends, strict=True):
            begin_s, end_s = max(level.from_s, self.begin_s), min(end_s, self.end_s)
            if begin_s < end_s:
                yield begin_s, end_s, level.factor

    def vehicles(self, entry: Entry) -> Iterator[tuple[int, int, int]]:
        """Yield begin, end and whole vehicles of each stretch; what is rounded is not lost."""
        total, yielded = 0.0, 0
        for begin_s, end_s, factor in self.stretches():
            total += entry.vehicles_per_hour * factor * (end_s - begin_s) / HOUR_S
            yield begin_s, end_s, round(total) - yielded
            yielded = round(total)
