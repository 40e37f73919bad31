"""Copies and resets as rows of the store."""

from __future__ import annotations

import numpy as np
import pytest

from deployments.stateful.authority.snapshots import (
    Copy,
    snapshot_row,
    key_of,
    pack_copy,
    pack_epoch,
    reset_row,
    resets_prefix,
    cluster_stamp,
    unpack_copy,
    unpack_epoch,
)
from deployments.stateful.layout import LAYOUT_ROW, Partition
from deployments.stateful.protocol import Key, Receipt, Version

STAMP, OTHER_STAMP = cluster_stamp("first"), cluster_stamp("second")
HIDDEN = np.linspace(-1, 1, 128, dtype=np.float32)
RECEIPTS = (Receipt("a", "f" * 16, 1, 2, 1 / 3), Receipt("b", "", 2, 0, 0.5))
LATE = Version(2**90, 2**40)


@pytest.mark.parametrize("receipts", [(), RECEIPTS], ids=["without receipts", "with receipts"])
def test_a_copy_is_read_as_it_was_written(receipts):
    copy = unpack_copy(pack_copy(Copy(LATE, HIDDEN, receipts), STAMP), STAMP)
    assert copy is not None
    assert (copy.version, copy.receipts) == (LATE, receipts)
    assert all(type(receipt) is Receipt for receipt in copy.receipts)
    assert np.array_equal(copy.hidden, HIDDEN)


def test_a_copy_of_another_start_of_the_cluster_counts_only_when_none_is_asked_for():
    row = pack_copy(Copy(LATE, HIDDEN), STAMP)
    assert unpack_copy(row, OTHER_STAMP) is None
    restored = unpack_copy(row, None)
    assert restored is not None
    assert restored.version == LATE


@pytest.mark.parametrize("damaged", [b"", b"short", b"x" * 32, b"x" * 535, b"x" * 10_000], ids=len)
@pytest.mark.parametrize("stamp", [STAMP, None], ids=["of this start", "of any start"])
def test_a_damaged_copy_is_none(damaged, stamp):
    assert unpack_copy(damaged, stamp) is None


@pytest.mark.parametrize("key", [Key("run", "300839359"), Key("a.b:c_d-1", "x")])
def test_a_row_tells_its_key(key):
    assert key_of(snapshot_row(key)) == key


def test_other_rows_have_no_key():
    partition = Partition(3, 1, 2)
    assert [key_of(row) for row in (partition.row, LAYOUT_ROW, reset_row(partition, "run"))] == [
        None
    ] * 3


def test_a_reset_tells_its_epoch_and_seats_keep_theirs_apart():
    assert unpack_epoch(pack_epoch(LATE.epoch)) == LATE.epoch
    assert reset_row(Partition(3, 1, 20), "run").startswith(resets_prefix(Partition(3, 1, 20)))
    assert not reset_row(Partition(3, 11, 20), "run").startswith(resets_prefix(Partition(3, 1, 20)))
    assert not reset_row(Partition(31, 1, 20), "run").startswith(resets_prefix(Partition(3, 1, 20)))
