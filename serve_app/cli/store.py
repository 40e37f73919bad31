"""``greenwave store``: copies of the whole store, and customer records in files of JSON lines.

SQLite's backup takes one consistent snapshot during writes (https://www.sqlite.org/backup.html).
Redis has its own backups; see docs/operations.md.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import sqlite3
from collections.abc import Callable, Iterator
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
from serve_app.cli.hints import greenwave_command
from serve_app.cli.opened_store import read_store, with_store
from serve_app.cli.terminal import notes
from serve_app.errors import CommandError
from serve_app.processes.instance import Instance
from serve_app.settings import Settings

_TABLES = {"documents", "counters"}


def add_backup(backup: argparse.ArgumentParser) -> None:
    add_file(backup, _backup, "SQLite database to write, which must not exist")


def add_restore(restore: argparse.ArgumentParser) -> None:
    add_file(restore, _restore, "file that 'backup' has written; it is not changed")


def _backup(options: argparse.Namespace) -> None:
    settings = Settings.of_instance(options.port_base)
    settings.existing_store_url()  # raises if there is nothing to copy
    copy(_embedded(settings), options.file)
    notes.print(f"The store is in {options.file}. Protect the file like a password.")


def _restore(options: argparse.Namespace) -> None:
    settings = Settings.of_instance(options.port_base)
    if Instance(settings.data_dir).processes():
        down = greenwave_command("down", options.port_base)
        raise CommandError(f"The system is running. Stop it first: {down}. Nothing was changed.")
    store = _embedded(settings)
    kept = replace(store, options.file)
    before = f" The store before is in {kept}." if kept else ""
    notes.print(f"Restored {store} from {options.file}.{before}")


def _embedded(settings: Settings) -> Path:
    if (path := settings.embedded_store) is None:
        raise CommandError(
            "The store is a Redis, which has its own backups: see docs/operations.md."
        )
    return path


def _connection(path: Path) -> contextlib.closing[sqlite3.Connection]:
    return contextlib.closing(sqlite3.connect(path))


def _reading(path: Path) -> contextlib.closing[sqlite3.Connection]:
    """Open a database that no process writes; its folder may allow no file beside it."""
    # a store that was copied with its log has its last writes there
    log = path.with_name(f"{path.name}-wal")
    mode = "mode=ro" if log.exists() and log.stat().st_size else "immutable=1"
    return contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True))


def copy(
    store: Path,
    to: Path,
    opened: Callable[[Path], contextlib.closing[sqlite3.Connection]] = _connection,
) -> None:
    """Write a snapshot of a store to a new file, whole or not at all.

    Args:
        opened: opens the store.

    Raises:
        CommandError: the file exists, it cannot be written, or the store cannot be read.
    """
    if to.exists():
        raise CommandError(f"{to} exists already. Name another file.")
    part = to.with_name(f"{to.name}.part")
    try:
        os.close(os.open(part, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600))
        with opened(store) as source, _connection(part) as target:
            source.backup(target)
        _check(part)
        part.rename(to)
    except (OSError, sqlite3.Error) as error:
        raise CommandError(f"Cannot copy the store to {to}: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def replace(store: Path, backup: Path) -> Path | None:
    """Replace a store by a backup, and return the new place of the store.

    Raises:
        CommandError: it is not the backup of a store, or a process uses the store.
    """
    if not backup.exists():
        raise CommandError(f"{backup} does not exist. Nothing was changed.")
    try:
        _check(backup)
    except sqlite3.OperationalError as error:
        raise CommandError(f"Cannot read {backup}: {error}. Nothing was changed.") from error
    except sqlite3.Error as error:
        raise CommandError(
            f"{backup} is not a whole store: {error}. Nothing was changed."
        ) from error
    store.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    restored = store.with_name(f"{store.name}.restored")
    restored.unlink(missing_ok=True)
    kept = _free_name(f"{store}.before")
    try:
        copy(backup, restored, _reading)
        if store.exists():
            _merge_log(store)
        for suffix in ("", "-wal", "-shm"):  # logs of a damaged store may remain
            with contextlib.suppress(FileNotFoundError):
                store.with_name(store.name + suffix).rename(f"{kept}{suffix}")
        restored.rename(store)
    finally:
        restored.unlink(missing_ok=True)
    return kept if kept.exists() else None


def _merge_log(store: Path) -> None:
    """Move what the write-ahead log of a store has into its file, unless it is damaged.

    Raises:
        CommandError: a process uses the store.
    """
    try:
        with _connection(store) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")  # needs an exclusive lock
    except sqlite3.Error as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            raise CommandError(
                f"A process uses {store}. Stop its system first. Nothing was changed."
            ) from error


def _free_name(path: str) -> Path:
    """Return the path, or the first of PATH-2, PATH-3, ... that does not exist."""
    names = itertools.chain([path], (f"{path}-{number}" for number in itertools.count(2)))
    return next(name for name in map(Path, names) if not name.exists())


def _check(path: Path) -> None:
    with _reading(path) as connection:
        (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        if not {name for (name,) in tables} >= _TABLES:
            raise sqlite3.DatabaseError("it has other tables")


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
