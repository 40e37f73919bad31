"""What the authority keeps: every state as committed last, and when each run was used last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from deployments.inference.authority.owners import StateRecord
from deployments.inference.authority.snapshots import Snapshot, Snapshots
from deployments.inference.protocol import Floats, Key, Version


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

    def begin_epoch(self, record: StateRecord) -> None:
        """Number a new grant of a state: no commit under an earlier one is accepted any more."""
        self.last_epoch += 1
        assert self.last_epoch > record.version.epoch, "invariant 2: epochs grow"
        record.version = Version(self.last_epoch, record.version.step)

    def commit(self, record: StateRecord, version: Version, hidden: Floats) -> None:
        """Keep a copy of a newer state, which counts as a use of its run."""
        assert version >= record.version, "invariant 3: what is kept never goes back"
        record.version, record.hidden = version, hidden.copy()
        self._runs[record.key.run].used_at = self._clock()
        self._runs.move_to_end(record.key.run)
        self._snapshots.put(record.key, Snapshot(version, record.hidden))

    def clear(self, record: StateRecord) -> None:
        """Return a state to zeros. The epoch stays, so that no commit from before is accepted."""
        record.version, record.hidden = Version(record.version.epoch, 0), None
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
