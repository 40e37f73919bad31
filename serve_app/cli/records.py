"""``greenwave store export`` and ``import``: customer records in files of JSON lines."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from deployments.customers import record_types
from deployments.customers.records.transfer import (
    ImportResult,
    InvalidLine,
    export_lines,
    import_lines,
    parse_line,
)
from deployments.store import Store
from models.atomic_write import atomic_write
from serve_app.cli.arguments import add_file
from serve_app.cli.stores import read_store, with_store
from serve_app.cli.terminal import notes
from serve_app.errors import CommandError
from serve_app.settings import Settings

MAX_SHOWN = 10


def add_export(export: argparse.ArgumentParser) -> None:
    add_file(export, _export, "file to write, of JSON lines")


def add_import(command: argparse.ArgumentParser) -> None:
    add_file(command, _import, "file to read, of JSON lines")


def _export(options: argparse.Namespace) -> None:
    written = read_store(options, lambda store: _export_file(options.file, store))
    notes.print(f"Exported {written} records to {options.file}.")


def _import(options: argparse.Namespace) -> None:
    _check_file(options.file)
    url = Settings.of_instance(options.port_base).resolved_store_url
    result = with_store(url, lambda store: _import_file(options.file, store))
    notes.print(f"Imported {result.created} records; {result.already_there} existed already.")
    if result.conflicts:
        raise CommandError(_several("records were not imported", result.conflicts))


async def _export_file(path: Path, store: Store) -> int:
    written = 0
    with atomic_write(path, mode=0o600) as file:
        async for line in export_lines(store, record_types()):
            file.write(line)
            written += 1
    return written


def _check_file(path: Path) -> None:
    """Check each record in the file.

    Raises:
        CommandError: a line is not a valid record.
        OSError: the file cannot be read.
    """
    faults = []
    for number, line in _numbered_lines(path):
        try:
            parse_line(number, line, record_types())
        except InvalidLine as error:
            faults.append(str(error))
    if faults:
        raise CommandError(_several("faults; nothing was imported", faults))


async def _import_file(path: Path, store: Store) -> ImportResult:
    types = record_types()
    lines = (parse_line(number, line, types) for number, line in _numbered_lines(path))
    return await import_lines(store, lines)


def _numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.isspace():
                yield number, line


def _several(what: str, sentences: list[str]) -> str:
    shown = sentences[:MAX_SHOWN]
    if len(sentences) > MAX_SHOWN:
        shown.append(f"... and {len(sentences) - MAX_SHOWN} more")
    return "\n  ".join([f"{len(sentences)} {what}:", *shown])
