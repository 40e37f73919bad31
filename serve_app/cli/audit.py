"""``greenwave audit``: the log of logins, resets, refusals and changes."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from deployments.access.audit import LOGS, AuditLog, Entry
from models.atomic_write import atomic_write
from serve_app.cli.arguments import add_json
from serve_app.cli.opened_store import read_store
from serve_app.cli.terminal import Row, write_rows
from serve_app.processes.ports import add_port_base

LIMIT = 100
_UNITS_S = {"m": 60, "h": 3600, "d": 24 * 3600}


def add_audit(audit: argparse.ArgumentParser) -> None:
    audit.add_argument("--log", choices=LOGS, help="only this one of the three logs")
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
    found = read_store(options, lambda store: AuditLog(store).entries())
    entries = [each for each in found if _matches(each, options)]
    if options.export is not None:
        _export(options.export, entries)
        sys.stderr.write(f"Exported {len(entries)} entries to {options.export}.\n")
        return
    shown = entries[-options.limit :] if options.limit > 0 else []
    write_rows([_fields(entry) for entry in shown], _line, as_json=options.json)


def _matches(entry: Entry, options: argparse.Namespace) -> bool:
    return (
        options.log in (None, entry.log)
        and options.who in (None, entry.who)
        and entry.where.startswith(options.where or "")
        and entry.last_ms >= options.since * 1000
    )


def _line(entry: Row) -> str:
    often, until = entry["count"], _moment(entry["last_ms"])
    times = f" ({often} times until {until})" if often > 1 else ""
    where = f" from {entry['where']}" if entry["where"] else ""
    detail = f": {entry['detail']}" if entry["detail"] else ""
    return f"{entry['time']}  {entry['event']}  {entry['who'] or '-'}{where}{detail}{times}"


def _export(path: Path, entries: list[Entry]) -> None:
    with atomic_write(path, mode=0o600) as file:
        for entry in entries:
            file.write(json.dumps(_fields(entry), ensure_ascii=False).encode() + b"\n")


def _fields(entry: Entry) -> Row:
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
