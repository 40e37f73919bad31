"""``greenwave audit``: who logged in, from where, what was reset, refused and changed."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from deployments.access.audit import LOGS, AuditLog, Entry
from deployments.store import open_store
from models.atomic_write import atomic_write
from serve_app.errors import CommandError
from serve_app.processes.ports import add_port_base
from serve_app.settings import Settings

LIMIT = 100
_UNITS_S = {"m": 60, "h": 3600, "d": 24 * 3600}


def add_audit(audit: argparse.ArgumentParser) -> None:
    audit.add_argument("--log", choices=LOGS, help="this one of the three logs alone")
    audit.add_argument("--event", help="entries of this event alone, such as 'login refused'")
    audit.add_argument("--who", help="entries of this user or service account alone")
    audit.add_argument("--where", help="entries from addresses that begin so")
    since = "entries of the last minutes, hours or days (30m, 12h, 7d), or since a time (ISO 8601)"
    audit.add_argument("--since", type=_since, default=0.0, help=since)
    limit = f"show the newest ones, so many of them (default: {LIMIT})"
    audit.add_argument("--limit", type=int, default=LIMIT, help=limit)
    export = "write all that match to a file of JSON lines, for its owner alone"
    audit.add_argument("--export", type=Path, metavar="FILE", help=export)
    add_port_base(audit)
    audit.set_defaults(run=_audit)


def _audit(options: argparse.Namespace) -> None:
    url = Settings.of_instance(options.port_base).existing_store_url()
    entries = list(_matching(asyncio.run(_read(url)), options))
    if options.export is not None:
        _export(options.export, entries)
        sys.stderr.write(f"Exported {len(entries)} entries to {options.export}.\n")
        return
    for entry in entries[-options.limit :] if options.limit > 0 else []:
        sys.stdout.write(f"{_line(entry)}\n")


async def _read(store_url: str) -> list[Entry]:
    store = open_store(store_url)
    try:
        return await AuditLog(store).entries()
    finally:
        await store.close()


def _matching(entries: list[Entry], options: argparse.Namespace) -> Iterator[Entry]:
    for entry in entries:
        if (
            options.log in (None, entry.log)
            and options.event in (None, entry.event)
            and options.who in (None, entry.who)
            and entry.where.startswith(options.where or "")
            and entry.last_ms >= options.since * 1000
        ):
            yield entry


def _line(entry: Entry) -> str:
    times = f" ({entry.count} times until {_moment(entry.last_ms)})" if entry.count > 1 else ""
    where = f" from {entry.where}" if entry.where else ""
    detail = f": {entry.detail}" if entry.detail else ""
    return f"{_moment(entry.at_ms)}  {entry.event}  {entry.who or '-'}{where}{detail}{times}"


def _export(path: Path, entries: list[Entry]) -> None:
    try:
        with atomic_write(path, mode=0o600) as file:
            for entry in entries:
                fields = {"time": _moment(entry.at_ms), **asdict(entry)}
                file.write(json.dumps(fields, ensure_ascii=False).encode() + b"\n")
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error


def _moment(milliseconds: float) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _since(text: str) -> float:
    try:
        if text[-1:] in _UNITS_S:
            return time.time() - int(text[:-1]) * _UNITS_S[text[-1]]
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is neither like 12h nor a time") from None
