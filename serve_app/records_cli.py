"""Customer records on the command line: ``export FILE`` and ``import FILE``."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

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
from serve_app.settings import Settings

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

MAX_SHOWN = 10

console = Console(stderr=True, highlight=False, soft_wrap=True)


class RecordsTransferError(RuntimeError):
    """An export or import could not be made, or not wholly; the message is for its user."""


def add_commands(commands: Subparsers) -> None:
    """Add ``export`` and ``import``; each sets `run`, a function of the parsed arguments."""
    for name, run, text in (
        ("export", _export, "write all customer records of the store to a file of JSON lines"),
        ("import", _import, "create the customer records of such a file in the store"),
    ):
        command = commands.add_parser(
            name, help=text, description=f"{text}. STORE_URL names the store.".capitalize()
        )
        command.add_argument("file", type=Path)
        command.set_defaults(run=run)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the commands; exit code 1 and one sentence when it fails."""
    parser = argparse.ArgumentParser(prog="records", description=__doc__)
    add_commands(parser.add_subparsers(required=True, metavar="COMMAND"))
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except RecordsTransferError as error:
        console.print(f"[red]{error}[/red]", markup=True)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _export(options: argparse.Namespace) -> None:
    written = asyncio.run(_export_file(options.file))
    console.print(f"Exported {written} records to {options.file}.")


def _import(options: argparse.Namespace) -> None:
    count = _check_file(options.file)
    result = asyncio.run(_import_file(options.file, count))
    console.print(f"Imported {result.created} records; {result.already_there} were there already.")
    if result.conflicts:
        raise RecordsTransferError(_several("records were left out", result.conflicts))


async def _export_file(path: Path) -> int:
    written = 0
    with _whole_file(path) as file, tqdm(desc="Exporting", unit=" records") as progress:
        async with _configured_store() as store:
            async for line in export_lines(store, record_types()):
                file.write(line)
                written += 1
                progress.update()
    return written


def _check_file(path: Path) -> int:
    """The number of records in the file; raises unless every line is one."""
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


async def _import_file(path: Path, count: int) -> ImportResult:
    types = record_types()
    lines = (parse_line(number, line, types) for number, line in _numbered_lines(path))
    result = ImportResult()
    async with _configured_store() as store:
        with tqdm(desc="Importing", unit=" records", total=count) as progress:
            async for result in import_lines(store, lines):
                progress.update(result.total - progress.n)
    return result


@asynccontextmanager
async def _configured_store() -> AsyncIterator[Store]:
    try:
        store = open_store(Settings().resolved_store_url)
        try:
            yield store
        finally:
            await store.close()
    except StoreError as error:
        raise RecordsTransferError(str(error)) from error


@contextmanager
def _whole_file(path: Path) -> Iterator[BinaryIO]:
    """Write a file that appears under its name only when it is whole, readable by its owner."""
    part = path.with_name(f"{path.name}.part")
    try:
        with open(part, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise RecordsTransferError(f"{path}: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)


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


if __name__ == "__main__":
    sys.exit(main())
