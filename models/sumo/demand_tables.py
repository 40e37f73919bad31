"""What is known of a city's traffic, as tables in CSV or JSON."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

EdgeId = Annotated[str, Field(min_length=1)]
Amount = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class InvalidDemandError(ValueError):
    """No routes can be made of it; one sentence."""


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Entry(_Row):
    """Vehicles that begin on an edge, in the hour if there is no profile."""

    edge: EdgeId
    vehicles_per_hour: Amount


class Exit(_Row):
    """An edge where trips end, and its weight among all exits that can be reached."""

    edge: EdgeId
    weight: Amount


class Turn(_Row):
    """What share of the vehicles on an edge drives on to another."""

    start: EdgeId = Field(alias="from")
    to: EdgeId
    share: Amount


class Level(_Row):
    """From a second of SUMO's clock on, the counts times a factor."""

    from_s: int
    factor: Amount


RowType = TypeVar("RowType", bound=_Row)


def read_table(path: Path, row: type[RowType]) -> tuple[RowType, ...]:
    """Read a CSV with a line of names, or a JSON list of objects.

    Raises:
        InvalidDemandError: it cannot be read, is empty, or a row is wrong.
    """
    try:
        rows = _rows(path)
    except OSError as error:
        raise InvalidDemandError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, csv.Error) as error:
        raise InvalidDemandError(f"{path} is no table: {error}") from error
    if not rows:
        raise InvalidDemandError(f"{path} has no rows.")
    return tuple(_read(path, number, each, row) for number, each in enumerate(rows, 1))


def _rows(path: Path) -> Sequence[Any]:
    text = path.read_text(encoding="utf-8-sig")  # spreadsheets begin a file with a mark
    if path.suffix != ".json":
        return list(csv.DictReader(text.splitlines(), strict=True))
    rows = json.loads(text)
    if not isinstance(rows, list):
        raise ValueError("it must be a list of objects")
    return rows


def _read(path: Path, number: int, values: object, row: type[RowType]) -> RowType:
    try:
        return row.model_validate(values)
    except ValidationError as error:
        mistake = error.errors(include_url=False)[0]
        column = ".".join(map(str, mistake["loc"])) or "row"
        raise InvalidDemandError(f"{path}, row {number}: {column}: {mistake['msg']}.") from error
