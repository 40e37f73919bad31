"""What a replica notes for the audit log, beside the requests and without waiting for the store."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Literal

from deployments.access.audit import AuditLog, Entry, Log, shortened

PERIOD_S = 5.0
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
