"""Export and import of all records as JSON lines.

A line is `{"service": "loans", "record": {…}}`, the record as fetch returns it. The records of one
service are of one moment.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from deployments.customers.records.errors import InvalidFields, MalformedBody
from deployments.customers.records.json_body import parse_json_object
from deployments.customers.records.record_type import Record, RecordType
from deployments.customers.records.service import document_of
from deployments.store import Store
from deployments.store.interface import batches

RecordTypes = Mapping[str, RecordType]


class InvalidLine(ValueError):
    """A line has no valid record; the message says why."""


@dataclass(frozen=True, slots=True)
class Line:
    """A record of a file, with its line number."""

    number: int
    service: str
    record: Record


@dataclass(slots=True)
class ImportResult:
    """The outcome of an import."""

    created: int = 0
    already_there: int = 0
    conflicts: list[str] = field(default_factory=list)
    """A sentence for each record that was left out, because it conflicts with another."""


async def export_lines(store: Store, record_types: RecordTypes) -> AsyncIterator[bytes]:
    """Yield every record as a line."""
    for service, record_type in record_types.items():
        async for _, record in store.scan(record_type.name):
            yield b'{"service":"%s","record":%s}\n' % (service.encode(), record)


def parse_line(number: int, line: bytes, record_types: RecordTypes) -> Line:
    """Read the record of a line.

    Raises:
        InvalidLine: the line has another form, or the record breaks rules of its service.
    """
    try:
        members = parse_json_object(line)
        service, record = str(members.get("service")), members.get("record")
        if service not in record_types or not isinstance(record, dict):
            raise InvalidLine(
                f"line {number}: not a record of a known type ({', '.join(record_types)})"
            )
        return Line(number, service, record_types[service].record.read(record))
    except MalformedBody:
        raise InvalidLine(f"line {number}: not a JSON object, or a wrong type in it") from None
    except InvalidFields as error:
        faults = "; ".join(f"{name}: {message}" for name, message in error.messages.items())
        raise InvalidLine(f"line {number}: {faults}") from None


async def import_lines(store: Store, lines: Iterable[Line]) -> ImportResult:
    """Create the records that the store does not have.

    An import can be repeated, also after it has failed: existing records stay as they are.
    """
    result = ImportResult()
    for batch in batches(lines):
        for service, of_service in groupby(batch, key=lambda line: line.service):
            await _import_batch(store, service, list(of_service), result)
    return result


async def _import_batch(store: Store, table: str, lines: list[Line], result: ImportResult) -> None:
    documents = [document_of(line.record) for line in lines]
    errors = await store.create_many(table, documents)
    for line, error in zip(lines, errors, strict=True):
        if error is None:
            result.created += 1
        elif await _is_there(store, table, line.record):
            result.already_there += 1
        else:
            conflict = f"{error.table} have another record with {error.value}"
            result.conflicts.append(f"line {line.number}: {conflict}")


async def _is_there(store: Store, table: str, record: Record) -> bool:
    found = await store.get(table, record.number)
    return found is not None and json.loads(found) == record.model_dump()
