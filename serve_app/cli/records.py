"""Customer records on the command line: ``export FILE`` and ``import FILE``."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from rich.console import Console
from tqdm import tqdm

from deployments.customers import record_types
from deployments.customers.records.transfer import (
    ImportResult,
    InvalidLine,
    export_lines,
    import_lines,
    parse_line,
)
from deployments.store import Store, StoreError, open_store
from models.atomic_write import atomic_write
from serve_app.cli.file_arguments import add_file_arguments
from serve_app.errors import CommandError
from serve_app.settings import Settings

MAX_SHOWN = 10

console = Console(stderr=True, highlight=False, soft_wrap=True)


class RecordsTransferError(CommandError):
    """An export or import could not be made, or not wholly; the message is for its user."""


def add_export(export: argparse.ArgumentParser) -> None:
    add_file_arguments(export, _export, "file to write, of JSON lines")


def add_import(command: argparse.ArgumentParser) -> None:
    add_file_arguments(command, _import, "file to read, of JSON lines")


def _export(options: argparse.Namespace) -> None:
    url = Settings.of_instance(options.port_base).existing_store_url()
    written = asyncio.run(_export_file(options.file, url))
    console.print(f"Exported {written} records to {options.file}.", markup=False)


def _import(options: argparse.Namespace) -> None:
    count = _check_file(options.file)
    url = Settings.of_instance(options.port_base).resolved_store_url
    result = asyncio.run(_import_file(options.file, count, url))
    console.print(f"Imported {result.created} records; {result.already_there} were there already.")
    if result.conflicts:
        raise RecordsTransferError(_several("records were left out", result.conflicts))


async def _export_file(path: Path, store_url: str) -> int:
    written = 0
    try:
        with (
            atomic_write(path, mode=0o600) as file,
            tqdm(desc="Exporting", unit=" records") as progress,
        ):
            async with _open(store_url) as store:
                async for line in export_lines(store, record_types()):
                    file.write(line)
                    written += 1
                    progress.update()
    except OSError as error:
        raise RecordsTransferError(f"{path}: {error.strerror}") from error
    return written


def _check_file(path: Path) -> int:
    """Count the records in the file.

    Raises:
        RecordsTransferError: a line does not hold a valid record, or the file cannot be read.
    """
    count, faults = 0, []
    for number, line in _numbered_lines(path, "Checking"):
        try:
            parse_line(number, line, record_types())
            count += 1
        except InvalidLine as error:
            faults.append(str(error))
    if faults:
        raise RecordsTransferError(_several("faults, and nothing was imported", faults))
    return count


async def _import_file(path: Path, count: int, store_url: str) -> ImportResult:
    types = record_types()
    lines = (parse_line(number, line, types) for number, line in _numbered_lines(path))
    result = ImportResult()
    async with _open(store_url) as store:
        with tqdm(desc="Importing", unit=" records", total=count) as progress:
            async for result in import_lines(store, lines):
                progress.update(result.total - progress.n)
    return result


@asynccontextmanager
async def _open(store_url: str) -> AsyncIterator[Store]:
    try:
        store = open_store(store_url)
        try:
            yield store
        finally:
            await store.close()
    except StoreError as error:
        raise RecordsTransferError(str(error)) from error


def _numbered_lines(path: Path, progress: str | None = None) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            lines = tqdm(file, desc=progress, unit=" records", disable=progress is None)
            for number, line in enumerate(lines, start=1):
                if not line.isspace():
                    yield number, line
    except OSError as error:
        raise RecordsTransferError(f"{path}: {error.strerror}") from error


def _several(what: str, sentences: list[str]) -> str:
    shown = sentences[:MAX_SHOWN]
    if len(sentences) > MAX_SHOWN:
        shown.append(f"... and {len(sentences) - MAX_SHOWN} more")
    return "\n  ".join([f"{len(sentences)} {what}:", *shown])
