"""Digests of the observations in a batch, by which a repeated idempotency key is checked."""

from __future__ import annotations

import numpy as np

from deployments.inference.policy_model import fingerprint_of, fingerprints_of

ROWS = np.random.default_rng(0).random((500, 19), np.float32)


def test_equal_rows_have_the_same_digest_in_every_batch_and_process():
    assert fingerprints_of(ROWS)[7:9].tolist() == fingerprints_of(ROWS[7:9]).tolist()
    (known,) = fingerprints_of(np.array([[1.0, 0.5, 0.0]], np.float32))
    assert known == 0x7FD6849C


def test_an_observation_alone_has_the_digest_that_it_has_in_a_batch():
    largest = np.finfo(np.float32).max
    rows = np.concatenate([ROWS, [[0.1, -0.0, largest, -largest, *[1e-45] * 15]]])
    alone = [fingerprint_of(row.tolist()) for row in rows]
    assert alone == fingerprints_of(rows.astype(np.float32)).tolist()
    assert fingerprint_of([]) == fingerprint_of([0, 0.0])


def test_zeros_at_the_end_do_not_change_a_digest():
    padded = np.concatenate([ROWS, np.zeros((500, 8), np.float32)], axis=1)
    assert fingerprints_of(padded).tolist() == fingerprints_of(ROWS).tolist()


def test_rows_that_differ_in_one_value_or_in_their_order_have_other_digests():
    digests = set(fingerprints_of(ROWS).tolist())
    assert len(digests) == len(ROWS)
    for column in range(ROWS.shape[1]):
        changed = ROWS.copy()
        changed[:, column] = np.nextafter(changed[:, column], 2)
        assert digests.isdisjoint(fingerprints_of(changed).tolist())
    assert digests.isdisjoint(fingerprints_of(ROWS[:, ::-1]).tolist())
