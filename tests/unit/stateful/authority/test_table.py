"""The table of states, and the filter of calls."""

from __future__ import annotations

from typing import Any, cast

import pytest

from deployments.stateful.authority.snapshots import Snapshot
from deployments.stateful.authority.table import REMEMBERED_CALLS, CallFilter, StateTable
from deployments.stateful.protocol import MAX_RECEIPTS, Key, Receipt, StaleSessionError, Version

KEY = Key("run", "a")


class NoSnapshots:
    def put(self, key: Key, snapshot: Snapshot | None) -> None: ...


def new_table() -> StateTable:
    return StateTable(cast(Any, NoSnapshots()), clock=lambda: 0.0)


@pytest.mark.parametrize("how", ["restore", "adopt"])
def test_a_state_is_granted_under_a_higher_epoch_wherever_it_came_from(how):
    table = new_table()
    getattr(table, how)(KEY, Snapshot(Version(2**90, 3), b"state"))
    record = table.obtain(KEY)
    table.begin_epoch(record)
    assert record.version == Version(2**90 + 1, 3)


def test_the_newest_receipts_are_kept_each_once():
    table = new_table()
    record = table.obtain(KEY)
    receipts = tuple(Receipt(str(n), "", n, ()) for n in range(1, 3 * MAX_RECEIPTS))
    for step in range(1, 3 * MAX_RECEIPTS):
        sent_again = receipts[max(0, step - 2) : step]
        table.commit(record, Snapshot(Version(1, step), b"", sent_again))
    assert record.receipts == receipts[-MAX_RECEIPTS:]


def test_a_claimed_copy_replaces_all_receipts():
    table = new_table()
    record = table.obtain(KEY)
    table.commit(record, Snapshot(Version(1, 1), b"", (Receipt("mine", "", 1, ()),)))
    claimed = (Receipt("claimed", "", 1, ()),)
    table.adopt(KEY, Snapshot(Version(2, 1), b"", claimed))
    assert record.receipts == claimed


def test_a_call_is_accepted_once_however_long_ago_it_was():
    calls = CallFilter()
    for number in range(1, 3 * REMEMBERED_CALLS):
        calls.accept(number)
        before = {1, max(1, number - REMEMBERED_CALLS), max(1, number - 1), number}
        for repeated in before if number % 100 < 3 else ():
            with pytest.raises(StaleSessionError):
                calls.accept(repeated)


def test_calls_may_overtake_each_other():
    calls = CallFilter()
    calls.accept(REMEMBERED_CALLS)
    for number in range(1, REMEMBERED_CALLS):
        calls.accept(number)
        with pytest.raises(StaleSessionError):
            calls.accept(number)


def test_a_call_that_was_overtaken_lets_no_older_one_in():
    calls = CallFilter()
    calls.accept(3 * REMEMBERED_CALLS)
    calls.accept(2 * REMEMBERED_CALLS + 1)
    with pytest.raises(StaleSessionError):
        calls.accept(2 * REMEMBERED_CALLS)


def test_the_memory_of_calls_is_bounded():
    calls = CallFilter()
    for number in range(1, 20 * REMEMBERED_CALLS, 2):
        calls.accept(number)
    calls.accept(10**18)
    assert len(calls._seen) <= 2 * REMEMBERED_CALLS
