"""What the authority keeps: each state as committed last, its owner, and each run's last use."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from deployments.stateful.authority.calls import CallFilter
from deployments.stateful.authority.rows import Copy
from deployments.stateful.authority.write_behind import Copies
from deployments.stateful.protocol import MAX_RECEIPTS, Floats, Key, Receipts, Version

NEVER = Version(0, 0)


class Owner:
    """Whoever may change a state."""


class Evictor(Owner):
    """The authority itself, from asking for states to having cleared or given them up."""


@dataclass(eq=False, slots=True)
class Session(Owner):
    """One replica's standing with the authority, until its lease runs out.

    Dictionaries and no sets, so that their order, and with it every schedule, can be repeated.

    Attributes:
        expires_at: when the lease runs out by the authority's clock.
        claiming: its claim is not settled; what earlier sessions of the replica owned is ``owned``
            until then.
        claimed, offered: what the claim names as owned, and as given back.
        owned: what the replica may step.
        waits: its places in queues.
        calls: which of its calls have come.
        recalls: what it has been asked to give back and has not given back yet.
        recalled: set while there are recalls that it has not been told.
        probed: someone is asking whether the replica lives.
    """

    number: int
    replica: str
    expires_at: float
    claiming: bool = True
    claimed: dict[Key, Version] = field(default_factory=dict)
    offered: dict[Key, Version] = field(default_factory=dict)
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
    """One state. ``hidden`` (128,) is None for zeros; ``waiters`` wait to own it, in order."""

    key: Key
    version: Version = NEVER
    hidden: Floats | None = None
    receipts: Receipts = ()
    owner: Owner | None = None
    waiters: list[Waiter] = field(default_factory=list)

    @property
    def wanted(self) -> bool:
        return bool(self.waiters) and any(not turn.granted.done() for turn in self.waiters)

    @property
    def copy(self) -> Copy | None:
        return None if self.hidden is None else Copy(self.version, self.hidden, self.receipts)


@dataclass(slots=True)
class _Run:
    used_at: float
    records: dict[Key, StateRecord] = field(default_factory=dict)


class StateTable:
    """Records by key, and runs with the longest unused first."""

    def __init__(self, copies: Copies, clock: Callable[[], float]) -> None:
        self.last_epoch = 0
        self._copies = copies
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

    def restore(self, key: Key, copy: Copy) -> None:
        """Take over a copy that the store has kept."""
        record = self.obtain(key)
        record.version, record.hidden, record.receipts = copy.version, copy.hidden, copy.receipts
        self.last_epoch = max(self.last_epoch, copy.version.epoch)

    def adopt(self, key: Key, copy: Copy) -> StateRecord:
        """Take over a newer copy that a replica has kept."""
        record = self.obtain(key)
        record.receipts = ()  # the claim names them all
        self.commit(record, copy)
        self.last_epoch = max(self.last_epoch, copy.version.epoch)
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

    def commit(self, record: StateRecord, newer: Copy) -> None:
        """Keep a newer state with the receipts that are new, which is a use of its run."""
        assert newer.version >= record.version, "invariant 3: what is kept never goes back"
        record.version, record.hidden = newer.version, newer.hidden.copy()
        if newer.receipts:
            known = record.receipts[-1].step if record.receipts else 0
            new = tuple(each for each in newer.receipts if each.step > known)
            record.receipts = (record.receipts + new)[-MAX_RECEIPTS:]
        self.use(record)
        self._note(record)

    def use(self, record: StateRecord) -> None:
        """Note that somebody uses the run of a state now."""
        self._runs[record.key.run].used_at = self._clock()
        self._runs.move_to_end(record.key.run)

    def clear(self, record: StateRecord, epoch: int) -> None:
        """Return a state to zeros, under an epoch that no copy from before it can have."""
        assert epoch > record.version.epoch, "invariant 2: epochs grow"
        record.version, record.hidden, record.receipts = Version(epoch, 0), None, ()
        self._copies.erase(record.key)

    def left(self, record: StateRecord) -> None:
        """Have a state's copy written soon: nobody owns it any more."""
        self._copies.hurry(record.key)

    def _note(self, record: StateRecord) -> None:
        if (copy := record.copy) is not None:
            self._copies.put(record.key, copy)

    def __iter__(self) -> Iterator[StateRecord]:
        return iter(list(self._records.values()))

    def of_run(self, run: str) -> list[StateRecord]:
        return list(self._runs[run].records.values()) if run in self._runs else []

    def used_since(self, run: str, moment: float) -> bool:
        return self._runs[run].used_at > moment

    @property
    def longest_unused_since(self) -> float:
        """When the run was used that has been idle for longest."""
        return next(iter(self._runs.values())).used_at if self._runs else self._clock()

    def idle_runs(self, since: float) -> Iterator[str]:
        """Yield the runs that nobody has used since that moment."""
        for run, use in self._runs.items():
            if use.used_at >= since:
                return
            yield run
