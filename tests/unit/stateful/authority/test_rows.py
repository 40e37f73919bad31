"""Snapshots as rows of the store."""

from __future__ import annotations

import pytest

from deployments.stateful.authority.snapshots import (
    Snapshot,
    cluster_stamp,
    has_stamp,
    key_of,
    snapshot_row,
)
from deployments.stateful.layout import LAYOUT_ROW, Partition
from deployments.stateful.protocol import Key, Receipt, Version

STATE = bytes(range(200))
RECEIPTS = (Receipt("a", "f" * 16, 1, (2, 1 / 3)), Receipt("b", "", 2, ()))
LATE = Version(2**90, 2**40)


@pytest.mark.parametrize("receipts", [(), RECEIPTS], ids=["without receipts", "with receipts"])
def test_a_snapshot_is_read_as_it_was_written(receipts):
    snapshot = Snapshot(LATE, STATE, receipts)
    row = snapshot.pack(cluster_stamp("first"))
    read = Snapshot.unpack(row, len(STATE))
    assert read == snapshot
    assert all(type(receipt) is Receipt for receipt in read.receipts)
    assert has_stamp(row, cluster_stamp("first"))
    assert not has_stamp(row, cluster_stamp("second"))


@pytest.mark.parametrize("damaged", [b"", b"short", b"x" * 32, b"x" * 231, b"x" * 10_000], ids=len)
def test_a_damaged_snapshot_is_ignored(damaged):
    assert Snapshot.unpack(damaged, len(STATE)) is None


@pytest.mark.parametrize("key", [Key("run", "300839359"), Key("a.b:c_d-1", "x")])
def test_a_row_names_its_key(key):
    assert key_of(snapshot_row(key)) == key


def test_other_rows_have_no_key():
    rows = [Partition(3, 1, 2).row, LAYOUT_ROW, "reset/1/0/run"]
    assert [key_of(row) for row in rows] == [None] * 3
