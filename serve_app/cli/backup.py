"""Copies of the whole store on the command line: ``backup FILE`` and ``restore FILE``.

An embedded store alone: Redis has means of its own, which docs/operations.md names. SQLite's backup
takes one consistent snapshot while others write (https://www.sqlite.org/backup.html).
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import sqlite3
from pathlib import Path

from rich.console import Console

from deployments.store import SQLITE_PREFIX
from serve_app.cli.file_arguments import add_file_arguments
from serve_app.cli.hints import make_command
from serve_app.errors import CommandError
from serve_app.processes.instance import Instance
from serve_app.settings import Settings

_TABLES = {"documents", "counters"}

console = Console(stderr=True, highlight=False, soft_wrap=True)


class BackupError(CommandError):
    """The store could not be copied; nothing was changed. The message is for its user."""


def add_backup(backup: argparse.ArgumentParser) -> None:
    add_file_arguments(backup, _backup, "SQLite database to write, which must not exist yet")


def add_restore(restore: argparse.ArgumentParser) -> None:
    add_file_arguments(restore, _restore, "what 'backup' has written; it stays as it is")


def _backup(options: argparse.Namespace) -> None:
    settings = Settings.of_instance(options.port_base)
    copy(_embedded(settings.existing_store_url()), options.file)
    console.print(f"The store is in {options.file}; keep it as safe as a password.", markup=False)


def _restore(options: argparse.Namespace) -> None:
    settings = Settings.of_instance(options.port_base)
    if Instance(settings.data_dir).processes():
        down = make_command("down", options.port_base)
        raise BackupError(f"The system is running; stop it first ({down}). Nothing was changed.")
    store = _embedded(settings.resolved_store_url)
    kept = replace(store, options.file)
    what = f"; the one before is in {kept}" if kept else ""
    console.print(f"{store} has what {options.file} has{what}.", markup=False)


def _embedded(url: str) -> Path:
    if not url.startswith(SQLITE_PREFIX):
        raise BackupError(
            "The store is a Redis, which makes copies of its own: see docs/operations.md."
        )
    return Path(url.removeprefix(SQLITE_PREFIX))


def copy(store: Path, to: Path) -> None:
    """Write one moment of a store to a new file, whole or not at all.

    Raises:
        BackupError: the file exists, cannot be written, or the store cannot be read.
    """
    if to.exists():
        raise BackupError(f"{to} exists already; name another file.")
    part = to.with_name(f"{to.name}.part")
    try:
        os.close(os.open(part, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600))
        with _connection(store) as source, _connection(part) as target:
            source.backup(target)
        _check(part)
        part.rename(to)
    except (OSError, sqlite3.Error) as error:
        raise BackupError(f"The store could not be copied to {to}: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def replace(store: Path, backup: Path) -> Path | None:
    """Put a backup in the place of a store, and return where the one before is now.

    Raises:
        BackupError: it is no backup of a store.
    """
    if not backup.exists():
        raise BackupError(f"There is no {backup}. Nothing was changed.")
    try:
        _check(backup)
    except sqlite3.Error as error:
        raise BackupError(f"{backup} is no whole store: {error}. Nothing was changed.") from error
    store.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    restored = store.with_name(f"{store.name}.restored")
    restored.unlink(missing_ok=True)
    copy(backup, restored)
    kept = None
    if store.exists():
        kept = _free_name(f"{store}.before")
        with _connection(store) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        store.rename(kept)
    for left in ("-wal", "-shm"):
        store.with_name(store.name + left).unlink(missing_ok=True)
    restored.rename(store)
    return kept


def _free_name(path: str) -> Path:
    """Return the path, or the first of PATH-2, PATH-3, ... that nobody has taken."""
    names = itertools.chain([path], (f"{path}-{number}" for number in itertools.count(2)))
    return next(name for name in map(Path, names) if not name.exists())


def _check(path: Path) -> None:
    with _connection(path) as connection:
        (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        if not {name for (name,) in tables} >= _TABLES:
            raise sqlite3.DatabaseError("it has other tables")


def _connection(path: Path) -> contextlib.closing[sqlite3.Connection]:
    return contextlib.closing(sqlite3.connect(path))
