from __future__ import annotations

import numpy as np
import pytest

from deployments.stateful.authority.snapshots import Copy
from deployments.stateful.authority.table import StateTable
from deployments.stateful.authority.snapshots import NoCopies
from deployments.stateful.protocol import MAX_RECEIPTS, Key, Receipt, Version

KEY = Key("run", "a")
LATE = Copy(Version(2**90, 3), np.ones(128, np.float32), ())


@pytest.mark.parametrize("how", ["restore", "adopt"])
def test_a_state_is_granted_under_a_higher_epoch_wherever_it_came_from(how: str) -> None:
    table = StateTable(NoCopies(), clock=lambda: 0.0)
    getattr(table, how)(KEY, LATE)
    record = table.obtain(KEY)
    table.begin_epoch(record)
    assert record.version == Version(2**90 + 1, 3)


def test_only_the_newest_receipts_of_a_state_are_kept() -> None:
    table = StateTable(NoCopies(), clock=lambda: 0.0)
    record = table.obtain(KEY)
    receipts = tuple(Receipt(str(n), "", n, 0, 0.5) for n in range(1, 3 * MAX_RECEIPTS))
    for step in range(1, 3 * MAX_RECEIPTS):
        state = np.full(128, step, np.float32)
        table.commit(record, Copy(Version(1, step), state, receipts[step - 1 : step]))
    assert record.receipts == receipts[-MAX_RECEIPTS:]
