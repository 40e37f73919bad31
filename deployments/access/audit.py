"""What is kept of who did what: three logs in the store, each with a bound, none with a secret.

``changes``: of users, tokens and keys, by operators. ``uses``: logins and resets. ``refusals``:
logins and tokens that were refused. Each keeps its newest MOST entries, so that a flood of one kind
drives out its own kind alone. Entries are added and drop out at the old end; nothing changes one.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from deployments.store import Expected, Store, StoreUnavailable

Log = Literal["changes", "uses", "refusals"]
LOGS: tuple[Log, ...] = get_args(Log)

MOST = 10_000  # entries of a log, some 300 bytes each
MAX_TEXT = 128  # characters of a field
_HEAD = " head"
_NEW: dict[str, Any] = {"first": 1, "last": 0, "batches": []}
_TRIALS = 5  # replicas that append at the same moment
_REMEMBERED = 64  # batches by which an appended one is known again
_MAX_DROPPED = 1000  # in one change


@dataclass(frozen=True)
class Entry:
    """What has happened, once or several times in a row.

    Attributes:
        at_ms: the first time, in milliseconds since the Unix epoch.
        event: such as ``login refused``.
        who: a user, ``service:`` and an account, or an operator of the machine; empty if unknown.
        where: the client's address, or the operator's machine.
        detail: what else is to be known.
        count: how many times until ``last_ms``.
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
    """The logs in a store. It offers no way to change or to take away an entry.

    Args:
        most: entries that a log keeps.
    """

    def __init__(self, store: Store, most: int = MOST) -> None:
        self._store = store
        self._most = most

    async def append(self, log: Log, entries: Sequence[Entry], batch: str | None = None) -> None:
        """Add entries at the end of a log; the oldest beyond its bound drop out.

        Args:
            batch: names them for a second try after an error, which adds them once all the same.

        Raises:
            StoreUnavailable: they may be in the log or not.
        """
        batch = batch or uuid.uuid4().hex
        for _ in range(_TRIALS):
            before = await self._store.get(_table(log), _HEAD)
            head: dict[str, Any] = _NEW if before is None else json.loads(before)
            if batch in head["batches"]:
                return
            last = head["last"] + len(entries)
            numbers = range(head["last"] + 1, last + 1)
            puts = {_key(n): _write(entry) for n, entry in zip(numbers, entries, strict=True)}
            first = max(head["first"], min(last - self._most + 1, head["first"] + _MAX_DROPPED))
            dropped = [_key(number) for number in range(head["first"], first)]
            batches = [*head["batches"], batch][-_REMEMBERED:]
            after = json.dumps({"first": first, "last": last, "batches": batches}).encode()
            when = Expected(_HEAD, before)
            if await self._store.change(_table(log), {**puts, _HEAD: after}, dropped, when=when):
                return
        raise StoreUnavailable("the audit log is written by many at this moment")

    async def entries(self) -> list[Entry]:
        """Return what is kept, in the order of time."""
        found = [
            Entry(log, **json.loads(value))
            for log in LOGS
            for value in [v async for k, v in self._store.scan(_table(log)) if k != _HEAD]
        ]
        return sorted(found, key=lambda entry: entry.at_ms)


def shortened(text: str) -> str:
    """Return a field as it is kept: printable, and not longer than may be."""
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
MAX_DISTINCT = 20  # entries of a log in a period; what differs further is counted together
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
    """Counts alike events together for a period, and then adds them to the log in one go.

    However many events there are, a replica adds at most MAX_DISTINCT + 2 entries to a log in a
    period, and keeps no more than two periods' worth while the store is away.

    Args:
        log: None where nothing is kept.
        clock: milliseconds since the Unix epoch.
    """

    def __init__(
        self,
        log: AuditLog | None = None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._log = log
        self._clock = clock
        self._noted: dict[Log, dict[_What, Entry]] = {}
        self._leaving: dict[Log, tuple[str, list[Entry]]] = {}

    def note(self, event: Event, who: str, where: str, detail: str = "") -> None:
        """Note an event. No argument may be, or hold, a secret."""
        log = _LOGS[event]
        noted = self._noted.setdefault(log, {})
        what: _What = (event, who, where, detail)
        if what not in noted and len(noted) >= MAX_DISTINCT:
            what = (event, OTHERS, "", "")
        now = self._clock()
        known = noted.get(what)
        at_ms, count = (known.at_ms, known.count) if known else (now, 0)
        texts = (known.who, known.where, known.detail) if known else map(shortened, what[1:])
        who, where, detail = texts
        noted[what] = Entry(log, at_ms, event, who, where, detail, count + 1, now)

    async def flush(self) -> None:
        """Add what was noted to the log.

        Raises:
            StoreUnavailable: it is kept for the next time; what comes meanwhile is counted with it.
        """
        if self._log is None:
            return
        for log, noted in self._noted.items():
            if log not in self._leaving and noted:
                self._leaving[log] = uuid.uuid4().hex, list(noted.values())
                self._noted[log] = {}
        for log, (batch, entries) in list(self._leaving.items()):
            await self._log.append(log, entries, batch)
            self._leaving.pop(log, None)
