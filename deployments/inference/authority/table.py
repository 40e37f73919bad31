"""What the authority keeps: each state as committed last, its owner, and each run's last use."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from deployments.inference.authority.snapshots import Snapshot, Snapshots
from deployments.inference.protocol import Floats, Key, Version

NEVER = Version(0, 0)


class Owner:
    """Whoever may change a state."""


class Clearing(Owner):
    """The authority, from asking for a run's states to having cleared them."""


@dataclass(eq=False, slots=True)
class Session(Owner):
    """One replica's standing with the authority, until its lease runs out.

    Dictionaries and no sets, so that their order, and with it every schedule, can be repeated.

    Attributes:
        expires_at: when the lease runs out by the authority's clock.
        owned: what the replica may step.
        waits: its places in queues.
        recalls: what it has been asked to give back and has not given back yet.
        recalled: set while there are recalls that it has not been told.
        probed: someone is asking whether the replica lives.
    """

    number: int
    replica: str
    expires_at: float
    owned: dict[Key, StateRecord] = field(default_factory=dict)
    waits: dict[asyncio.Future[None], None] = field(default_factory=dict)
    recalls: dict[Key, StateRecord] = field(default_factory=dict)
    recalled: asyncio.Event = field(default_factory=asyncio.Event)
    probed: bool = False


class Turn(NamedTuple):
    """A place in the queue for a state; the future is done when the owner has the state."""

    owner: Owner
    granted: asyncio.Future[None]


@dataclass(eq=False, slots=True)
class StateRecord:
    """One state. ``hidden`` (128,) is None for zeros; ``waiters`` wait to own it, in order."""

    key: Key
    version: Version = NEVER
    hidden: Floats | None = None
    owner: Owner | None = None
    waiters: deque[Turn] = field(default_factory=deque)

    @property
    def wanted(self) -> bool:
        return any(not turn.granted.done() for turn in self.waiters)


@dataclass(slots=True)
class _Run:
    used_at: float
    records: dict[Key, StateRecord] = field(default_factory=dict)


class StateTable:
    """Records by key, and runs with the longest unused first.

    Args:
        first_epoch: higher than any that an earlier life of the authority can have given out.
    """

    def __init__(
        self, snapshots: Snapshots, clock: Callable[[], float], first_epoch: int = 0
    ) -> None:
        self.last_epoch = first_epoch
        self._snapshots = snapshots
        self._clock = clock
        self._records: dict[Key, StateRecord] = {}
        self._runs: OrderedDict[str, _Run] = OrderedDict()

    def __len__(self) -> int:
        return len(self._records)

    def get(self, key: Key) -> StateRecord | None:
        return self._records.get(key)

    def obtain(self, key: Key) -> StateRecord:
        """Return the record of a key; a new one, of zeros, where there was none."""
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = StateRecord(key)
            self._runs.setdefault(key.run, _Run(self._clock())).records[key] = record
        return record

    def remove(self, record: StateRecord) -> None:
        del self._records[record.key]
        run = self._runs[record.key.run]
        run.records.pop(record.key, None)
        if not run.records:
            del self._runs[record.key.run]

    def restore(self, key: Key, snapshot: Snapshot) -> None:
        """Take over a copy that the store has kept."""
        record = self.obtain(key)
        record.version, record.hidden = snapshot
        self.last_epoch = max(self.last_epoch, snapshot.version.epoch)

    def adopt(self, key: Key, version: Version, hidden: Floats) -> StateRecord:
        """Take over a copy that a replica has kept."""
        record = self.obtain(key)
        self.commit(record, version, hidden)
        self.last_epoch = max(self.last_epoch, version.epoch)
        return record

    def next_epoch(self) -> int:
        """Return a number higher than every epoch so far."""
        self.last_epoch += 1
        return self.last_epoch

    def begin_epoch(self, record: StateRecord) -> None:
        """Begin a new grant of a state: no commit under an earlier one is accepted any more."""
        epoch = self.next_epoch()
        assert epoch > record.version.epoch, "invariant 2: epochs grow"
        record.version = Version(epoch, record.version.step)

    def commit(self, record: StateRecord, version: Version, hidden: Floats) -> None:
        """Keep a copy of a newer state, which counts as a use of its run."""
        assert version >= record.version, "invariant 3: what is kept never goes back"
        record.version, record.hidden = version, hidden.copy()
        self._runs[record.key.run].used_at = self._clock()
        self._runs.move_to_end(record.key.run)
        self._snapshots.put(record.key, Snapshot(version, record.hidden))

    def clear(self, record: StateRecord, epoch: int) -> None:
        """Return a state to zeros, under an epoch that no copy from before it can have."""
        assert epoch >= record.version.epoch, "invariant 2: epochs grow"
        record.version, record.hidden = Version(epoch, 0), None
        self._snapshots.erase(record.key)

    def of_run(self, run: str) -> list[StateRecord]:
        return list(self._runs[run].records.values()) if run in self._runs else []

    def used_since(self, run: str, moment: float) -> bool:
        return self._runs[run].used_at > moment

    def idle_runs(self, since: float) -> Iterator[str]:
        """Yield the runs that nobody has used since that moment."""
        for run, use in self._runs.items():
            if use.used_at >= since:
                return
            yield run
