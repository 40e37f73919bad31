"""The audit log: three append-only logs in the store, without secrets.

``changes``: of users, tokens and keys, by operators. ``uses``: logins and resets. ``refusals``:
refused logins and tokens. Each has at most MAX_ENTRIES entries and drops its oldest, so that a
flood of one kind displaces its own kind only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from deployments.http.messages import now_ms
from deployments.store import Expected, Store, StoreUnavailable

Log = Literal["changes", "uses", "refusals"]
LOGS: tuple[Log, ...] = get_args(Log)

MAX_ENTRIES = 10_000  # entries of a log, some 300 bytes each
MAX_TEXT = 128  # characters of a field
_HEAD = " head"
_NEW: dict[str, Any] = {"first": 1, "last": 0}
_ATTEMPTS = 5  # when several replicas append at the same time
_MAX_DROPPED = 1000  # in one change


@dataclass(frozen=True)
class Entry:
    """An event that happened once or several times in a row.

    Attributes:
        at_ms: of the first time, in milliseconds since the Unix epoch.
        event: such as ``login refused``.
        who: a user, ``service:`` and an account, or an operator; empty if unknown.
        where: the client's address, or the operator's machine.
        count: of times until ``last_ms``.
    """

    log: Log
    at_ms: int
    event: str
    who: str
    where: str
    detail: str
    count: int
    last_ms: int


class AuditLog:
    """The logs in a store.

    Args:
        most: entries of a log.
    """

    def __init__(self, store: Store, most: int = MAX_ENTRIES) -> None:
        self._store = store
        self._most = most

    async def append(self, log: Log, entries: Sequence[Entry]) -> None:
        """Append entries to a log, and drop the oldest beyond its bound.

        Raises:
            StoreUnavailable: the entries may be in the log or not, and can be appended again.
        """
        for _ in range(_ATTEMPTS):
            before = await self._store.get(_table(log), _HEAD)
            head: dict[str, Any] = _NEW if before is None else json.loads(before)
            last = head["last"] + len(entries)
            numbers = range(head["last"] + 1, last + 1)
            puts = {_key(n): _write(entry) for n, entry in zip(numbers, entries, strict=True)}
            first = max(head["first"], min(last - self._most + 1, head["first"] + _MAX_DROPPED))
            dropped = [_key(number) for number in range(head["first"], first)]
            # earlier releases read "batches"
            after = json.dumps({"first": first, "last": last, "batches": []}).encode()
            when = Expected(_HEAD, before)
            if await self._store.change(_table(log), {**puts, _HEAD: after}, dropped, when=when):
                return
        raise StoreUnavailable("too many replicas write the audit log at the same time")

    async def entries(self) -> list[Entry]:
        """Return all entries, in the order of time, each once if it was appended repeatedly."""
        found = [
            Entry(log, **json.loads(value))
            for log in LOGS
            for value in [v async for k, v in self._store.scan(_table(log)) if k != _HEAD]
        ]
        return sorted(dict.fromkeys(found), key=lambda entry: entry.at_ms)


def shortened(text: str) -> str:
    """Return a field as it is stored: printable, and of limited length."""
    text = text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
    return "".join(each if each.isprintable() else "�" for each in text)


def _table(log: Log) -> str:
    return f"audit_{log}"


def _key(number: int) -> str:
    return f"{number:016d}"


def _write(entry: Entry) -> bytes:
    fields = asdict(entry)
    del fields["log"]
    return json.dumps(fields, ensure_ascii=False).encode()


FLUSH_PERIOD_S = 5.0
MAX_DISTINCT = 20  # entries of a log in a period; further ones are counted together
OTHERS = "(others)"

Event = Literal["login", "reset", "login refused", "token refused"]
_LOGS: dict[Event, Log] = {
    "login": "uses",
    "reset": "uses",
    "login refused": "refusals",
    "token refused": "refusals",
}

_What = tuple[Event, str, str, str]


class AuditBuffer:
    """Counts equal events of a period together, and appends them to the log.

    A replica appends at most MAX_DISTINCT + 2 entries to a log in a period, and keeps those of at
    most two periods while the store is unavailable.

    Args:
        clock: milliseconds since the Unix epoch.
    """

    def __init__(self, log: AuditLog, clock: Callable[[], int] = now_ms) -> None:
        self._log = log
        self._clock = clock
        self._noted: dict[Log, dict[_What, Entry]] = {}
        self._leaving: dict[Log, list[Entry]] = {}

    def note(self, event: Event, who: str, where: str, detail: str = "") -> None:
        """Note an event. No argument may contain a secret."""
        log = _LOGS[event]
        noted = self._noted.setdefault(log, {})
        what: _What = (event, who, where, detail)
        if what not in noted and len(noted) >= MAX_DISTINCT:
            what = (event, OTHERS, "", "")
        now, known = self._clock(), noted.get(what)
        if known is not None:
            noted[what] = replace(known, count=known.count + 1, last_ms=now)
            return
        who, where, detail = map(shortened, what[1:])
        noted[what] = Entry(log, now, event, who, where, detail, 1, now)

    async def flush(self) -> None:
        """Append the noted events to the log.

        Raises:
            StoreUnavailable: the events are kept for the next call.
        """
        for log, noted in self._noted.items():
            if log not in self._leaving and noted:
                self._leaving[log] = list(noted.values())
                self._noted[log] = {}
        for log, entries in list(self._leaving.items()):
            await self._log.append(log, entries)
            self._leaving.pop(log, None)
