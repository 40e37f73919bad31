"""What the authority keeps: every state as committed last, and when each run was used last."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from deployments.inference.authority.snapshots import Snapshot, Snapshots
from deployments.inference.protocol import Floats, Key, Version

NEVER = Version(0, 0)


@dataclass(slots=True)
class StateRecord:
    """One state. ``hidden`` (128,) is None for zeros; ``waiters`` wait to own it, in order."""

    version: Version = NEVER
    hidden: Floats | None = None
    owner: int | None = None
    waiters: deque[tuple[int, asyncio.Future[None]]] = field(default_factory=deque)

    @property
    def wanted(self) -> bool:
        return any(not future.done() for _, future in self.waiters)


@dataclass(slots=True)
class _Run:
    used_at: float
    keys: set[Key] = field(default_factory=set)


class StateTable:
    """Records by key, and runs with the longest unused first."""

    def __init__(self, snapshots: Snapshots, clock: Callable[[], float]) -> None:
        self._snapshots = snapshots
        self._clock = clock
        self._records: dict[Key, StateRecord] = {}
        self._runs: OrderedDict[str, _Run] = OrderedDict()

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, key: Key) -> StateRecord:
        return self._records[key]

    def get(self, key: Key) -> StateRecord | None:
        return self._records.get(key)

    def obtain(self, key: Key) -> StateRecord:
        """The record of a key; a new one, of zeros, where there was none."""
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = StateRecord()
            self._runs.setdefault(key.run, _Run(self._clock())).keys.add(key)
        return record

    def remove(self, key: Key) -> None:
        del self._records[key]
        keys = self._runs[key.run].keys
        keys.discard(key)
        if not keys:
            del self._runs[key.run]

    def commit(self, key: Key, version: Version, hidden: Floats) -> None:
        """Keep a copy of a newer state, which counts as a use of its run."""
        record = self._records[key]
        record.version, record.hidden = version, hidden.copy()
        self._runs[key.run].used_at = self._clock()
        self._runs.move_to_end(key.run)
        self._snapshots.put(key, Snapshot(version, record.hidden))

    def clear(self, key: Key) -> None:
        """Back to zeros. The epoch stays, so that no commit from before is accepted."""
        record = self._records[key]
        record.version, record.hidden = Version(record.version.epoch, 0), None
        self._snapshots.erase(key)

    def of_run(self, run: str) -> list[tuple[Key, StateRecord]]:
        keys = self._runs[run].keys if run in self._runs else ()
        return [(key, self._records[key]) for key in keys]

    def used_since(self, run: str, moment: float) -> bool:
        return self._runs[run].used_at > moment

    def idle_runs(self, since: float) -> Iterator[str]:
        """Runs that nobody has used since that moment."""
        for run, use in self._runs.items():
            if use.used_at >= since:
                return
            yield run
