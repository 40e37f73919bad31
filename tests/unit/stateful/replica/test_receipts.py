"""Receipts: a request with an idempotency key is stepped once, however often it is repeated."""

from __future__ import annotations

import numpy as np
import pytest

from deployments.stateful.protocol import (
    MAX_RECEIPTS,
    Grant,
    Key,
    KeyReusedError,
    Receipt,
    Version,
)
from deployments.stateful.replica.held_states import HeldStates, batch_of, commit_of
from deployments.stateful.replica.receipts import ReceiptCache, note


def receipt(n: int) -> Receipt:
    return Receipt(f"key-{n}", "print", n, (n,))


def add(cache: ReceiptCache, each: Receipt) -> None:
    note([cache], [each.request_id], [each.fingerprint], [each.step], [each.output])


def test_a_receipt_is_found_by_its_key_and_the_same_input():
    cache = ReceiptCache.of((receipt(1), receipt(2)))
    assert cache.find("key-2", "print") == receipt(2)
    assert cache.find("key-3", "print") is None
    with pytest.raises(KeyReusedError):
        cache.find("key-2", "other")
    assert cache.find("key-2", "of another form") == receipt(2)


def test_the_newest_are_kept_in_the_order_of_their_steps():
    cache = ReceiptCache.of(tuple(receipt(n) for n in range(MAX_RECEIPTS)))
    for n in range(MAX_RECEIPTS, MAX_RECEIPTS + 6):
        add(cache, receipt(n))
    assert cache.all() == tuple(receipt(n) for n in range(6, MAX_RECEIPTS + 6))
    assert cache.find("key-5", "print") is None


def test_those_of_later_steps_are_in_their_order():
    cache = ReceiptCache.of(tuple(receipt(n) for n in range(1, 8)))
    assert cache.since(4) == (receipt(5), receipt(6), receipt(7))
    assert cache.since(7) == ()
    assert ReceiptCache().since(0) == ()


def test_receipts_move_with_a_state_and_a_commit_has_only_new_ones():
    held, key = HeldStates(), Key("run", "300839359")
    held.request(key)
    held.grant(key, Grant(Version(1, 1), None, (receipt(1),)), np.zeros(1))
    state = held.owned(key)
    assert state is not None
    batch = held.batch_of([state])
    held.advance(batch, state.state[None] + 1)
    add(state.receipts, receipt(2))
    assert state.copy().receipts == (receipt(1), receipt(2)), "a claim has all"
    assert batch_of([state.copy()]).receipts == {key: state.copy().receipts}
    assert commit_of(batch).receipts == {key: (receipt(2),)}
    held.acknowledge(batch.rows, [2])
    assert commit_of(batch).receipts == {}


def test_of_the_steps_of_a_batch_those_with_a_key_have_a_receipt():
    caches = [ReceiptCache(), ReceiptCache()]
    note(caches, ["key-1", None], ["print", ""], [1, 1], [(1,), (2,)])
    assert [cache.all() for cache in caches] == [(receipt(1),), ()]
