"""``greenwave audit``: the log of logins, resets, refusals and changes."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from deployments.access.audit import LOGS, AuditLog, Entry
from models.atomic_write import atomic_write
from serve_app.cli.arguments import add_json
from serve_app.cli.stores import with_store
from serve_app.cli.terminal import write_json
from serve_app.processes.ports import add_port_base
from serve_app.settings import Settings

LIMIT = 100
_UNITS_S = {"m": 60, "h": 3600, "d": 24 * 3600}


def add_audit(audit: argparse.ArgumentParser) -> None:
    audit.add_argument("--log", choices=LOGS, help="only this one of the three logs")
    audit.add_argument("--event", help="only entries of this event, such as 'login refused'")
    audit.add_argument("--who", help="only entries of this user or service account")
    audit.add_argument("--where", help="only entries from addresses with this prefix")
    since = (
        "only entries of the last minutes, hours or days (30m, 12h, 7d), or since an ISO 8601 time"
    )
    audit.add_argument("--since", type=_since, default=0.0, help=since)
    limit = f"show at most this many of the newest ones (default: {LIMIT})"
    audit.add_argument("--limit", type=int, default=LIMIT, help=limit)
    export = "write all matching entries to a file of JSON lines that only its owner can read"
    audit.add_argument("--export", type=Path, metavar="FILE", help=export)
    add_json(audit)
    add_port_base(audit)
    audit.set_defaults(run=_audit)


def _audit(options: argparse.Namespace) -> None:
    url = Settings.of_instance(options.port_base).existing_store_url()
    found = with_store(url, lambda store: AuditLog(store).entries())
    entries = list(_matching(found, options))
    if options.export is not None:
        _export(options.export, entries)
        sys.stderr.write(f"Exported {len(entries)} entries to {options.export}.\n")
        return
    shown = entries[-options.limit :] if options.limit > 0 else []
    if options.json:
        write_json([_fields(entry) for entry in shown])
        return
    for entry in shown:
        sys.stdout.write(f"{_line(entry)}\n")


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
    with atomic_write(path, mode=0o600) as file:
        for entry in entries:
            file.write(json.dumps(_fields(entry), ensure_ascii=False).encode() + b"\n")


def _fields(entry: Entry) -> dict[str, object]:
    return {"time": _moment(entry.at_ms), **asdict(entry)}


def _moment(milliseconds: float) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _since(text: str) -> float:
    try:
        if text[-1:] in _UNITS_S:
            return time.time() - int(text[:-1]) * _UNITS_S[text[-1]]
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither like 12h nor an ISO 8601 time"
        ) from None
