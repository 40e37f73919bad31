from __future__ import annotations

from typing import Any, cast

import pytest

from deployments.stateful.authority.snapshots import Snapshot
from deployments.stateful.authority.table import StateTable
from deployments.stateful.protocol import MAX_RECEIPTS, Key, Receipt, Version

KEY = Key("run", "a")
LATE = Snapshot(Version(2**90, 3), b"state")


class NoSnapshots:
    def put(self, key: Key, snapshot: Snapshot | None) -> None: ...


def new_table() -> StateTable:
    return StateTable(cast(Any, NoSnapshots()), clock=lambda: 0.0)


@pytest.mark.parametrize("how", ["restore", "adopt"])
def test_a_state_is_granted_under_a_higher_epoch_wherever_it_came_from(how: str) -> None:
    table = new_table()
    getattr(table, how)(KEY, LATE)
    record = table.obtain(KEY)
    table.begin_epoch(record)
    assert record.version == Version(2**90 + 1, 3)


def test_only_the_newest_receipts_of_a_state_are_kept() -> None:
    table = new_table()
    record = table.obtain(KEY)
    receipts = tuple(Receipt(str(n), "", n, (0, 0.5)) for n in range(1, 3 * MAX_RECEIPTS))
    for step in range(1, 3 * MAX_RECEIPTS):
        table.commit(record, Snapshot(Version(1, step), b"", receipts[step - 1 : step]))
    assert record.receipts == receipts[-MAX_RECEIPTS:]
