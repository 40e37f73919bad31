"""The authority's state table: each state as last committed, its owner, and each run's last use."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from deployments.stateful.authority.snapshots import Snapshot, SnapshotWriter
from deployments.stateful.protocol import (
    MAX_RECEIPTS,
    Key,
    Receipts,
    RunSummary,
    StaleSessionError,
    Version,
)

NEVER = Version(0, 0)
REMEMBERED_CALLS = 4096
"""Calls of a session whose numbers are kept. Earlier ones are refused: they may be repetitions."""


class Owner:
    """The party that may change a state."""


class Evictor(Owner):
    """The authority itself, from recalling states until it has cleared or retired them."""


class CallFilter:
    """Lets each numbered call of one session run at most once."""

    def __init__(self) -> None:
        self._newest = 0
        self._seen: set[int] = set()

    def accept(self, number: int) -> None:
        """Note that a call runs now.

        Raises:
            StaleSessionError: it has run before, or is too old to tell.
        """
        if number in self._seen or number <= self._newest - REMEMBERED_CALLS:
            raise StaleSessionError(f"Call {number} has arrived before, or is very late")
        self._newest = max(self._newest, number)
        self._seen.add(number)
        if len(self._seen) > 2 * REMEMBERED_CALLS:
            self._seen = {each for each in self._seen if each > self._newest - REMEMBERED_CALLS}


@dataclass(eq=False, slots=True)
class Session(Owner):
    """One replica's registration with the authority, until its lease expires.

    Dictionaries instead of sets keep their order, so that every schedule can be repeated.

    Attributes:
        expires_at: when the lease ends by the authority's clock.
        claiming: its claim is not settled. Until then ``owned`` has what earlier sessions of the
            replica owned.
        claimed, released: what the claim names as owned, and as given back.
        owned: what the replica may step.
        waits: its places in queues.
        calls: which of its calls have run.
        recalls: states that it was asked to give back, and has not given back yet.
        recalled: set while it has not been notified of some recalls.
        probed: a task checks whether the replica is alive.
    """

    number: int
    replica: str
    expires_at: float
    claiming: bool = True
    claimed: dict[Key, Version] = field(default_factory=dict)
    released: dict[Key, Version] = field(default_factory=dict)
    owned: dict[Key, StateRecord] = field(default_factory=dict)
    calls: CallFilter = field(default_factory=CallFilter)
    waits: dict[asyncio.Future[None], None] = field(default_factory=dict)
    recalls: dict[Key, StateRecord] = field(default_factory=dict)
    recalled: asyncio.Event = field(default_factory=asyncio.Event)
    probed: bool = False


class Waiter(NamedTuple):
    """A place in the queue for a state; the future is done when the owner has the state."""

    owner: Owner
    granted: asyncio.Future[None]


@dataclass(eq=False, slots=True)
class StateRecord:
    """One state. ``state`` is None for the initial one; ``waiters`` wait to own it, in order."""

    key: Key
    version: Version = NEVER
    state: bytes | None = None
    receipts: Receipts = ()
    owner: Owner | None = None
    waiters: list[Waiter] = field(default_factory=list)

    @property
    def wanted(self) -> bool:
        return bool(self.waiters) and any(not waiter.granted.done() for waiter in self.waiters)


@dataclass(slots=True)
class _Run:
    used_at: float
    records: dict[Key, StateRecord] = field(default_factory=dict)


class StateTable:
    """Records by key, and runs with the longest unused first."""

    def __init__(self, snapshots: SnapshotWriter, clock: Callable[[], float]) -> None:
        self.last_epoch = 0
        self._snapshots = snapshots
        self._clock = clock
        self._records: dict[Key, StateRecord] = {}
        self._runs: OrderedDict[str, _Run] = OrderedDict()

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[StateRecord]:
        return iter(list(self._records.values()))

    def get(self, key: Key) -> StateRecord | None:
        return self._records.get(key)

    def obtain(self, key: Key) -> StateRecord:
        """Return the record of a key; a new one, of the initial state, if there was none."""
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = StateRecord(key)
            run = self._runs.get(key.run)
            if run is None:
                run = self._runs[key.run] = _Run(self._clock())
            run.records[key] = record
        return record

    def remove(self, record: StateRecord) -> None:
        del self._records[record.key]
        run = self._runs[record.key.run]
        run.records.pop(record.key, None)
        if not run.records:
            del self._runs[record.key.run]

    def restore(self, key: Key, snapshot: Snapshot) -> None:
        """Adopt a snapshot from the store."""
        record = self.obtain(key)
        record.version, record.state, record.receipts = snapshot
        self.last_epoch = max(self.last_epoch, snapshot.version.epoch)

    def adopt(self, key: Key, claimed: Snapshot) -> StateRecord:
        """Adopt a newer copy that a replica has claimed."""
        record = self.obtain(key)
        record.receipts = ()  # a claim has all of them
        self.commit(record, claimed)
        self.last_epoch = max(self.last_epoch, claimed.version.epoch)
        return record

    def next_epoch(self) -> int:
        """Return a number above every epoch so far."""
        self.last_epoch += 1
        return self.last_epoch

    def begin_epoch(self, record: StateRecord) -> None:
        """Begin a new grant of a state: no commit under an earlier one is accepted any more."""
        epoch = self.next_epoch()
        assert epoch > record.version.epoch, "invariant 2: epochs grow"
        record.version = Version(epoch, record.version.step)

    def commit(self, record: StateRecord, newer: Snapshot) -> None:
        """Keep a newer state with the receipts that are new, which is a use of its run."""
        assert newer.version >= record.version, "invariant 3: what is kept never goes back"
        record.version, record.state = newer.version, newer.state
        if newer.receipts:
            known = record.receipts[-1].step if record.receipts else 0
            new = tuple(each for each in newer.receipts if each.step > known)
            record.receipts = (record.receipts + new)[-MAX_RECEIPTS:]
        self.use(record)
        self._snapshots.put(record.key, Snapshot(record.version, record.state, record.receipts))

    def clear(self, record: StateRecord, epoch: int) -> None:
        """Return a state to its initial one, under an epoch above that of every earlier copy."""
        assert epoch > record.version.epoch, "invariant 2: epochs grow"
        record.version, record.state, record.receipts = Version(epoch, 0), None, ()

    def begin(self, key: Key, state: Snapshot) -> None:
        """Let a cleared or new state go on from the step of another one, in a new epoch."""
        version = Version(self.next_epoch(), state.version.step)
        self.commit(self.obtain(key), Snapshot(version, state.state, ()))

    def expedite_snapshot(self, record: StateRecord) -> None:
        """Write the snapshot of a state at once, because no replica owns the state."""
        self._snapshots.expedite(record.key)

    # Runs

    def of_run(self, run: str) -> list[StateRecord]:
        return list(self._runs[run].records.values()) if run in self._runs else []

    def use(self, record: StateRecord) -> None:
        """Note that the run of a state is used now."""
        self._runs[record.key.run].used_at = self._clock()
        self._runs.move_to_end(record.key.run)

    def used_since(self, run: str, moment: float) -> bool:
        return self._runs[run].used_at > moment

    @property
    def longest_unused_since(self) -> float:
        """The last use of the run that has been idle for longest."""
        return next(iter(self._runs.values())).used_at if self._runs else self._clock()

    def latest_runs(self, limit: int) -> list[RunSummary]:
        """Return the runs that were used last, the latest first."""
        now, latest = self._clock(), islice(reversed(self._runs.items()), limit)
        return [
            RunSummary(
                run,
                {each.key.entity: each.version.step for each in use.records.values()},
                now - use.used_at,
                sorted(
                    {
                        each.owner.replica
                        for each in use.records.values()
                        if isinstance(each.owner, Session)
                    }
                ),
            )
            for run, use in latest
        ]

    def idle_runs(self, since: float) -> Iterator[str]:
        """Yield the runs that were not used since that moment."""
        for run, use in self._runs.items():
            if use.used_at >= since:
                return
            yield run
