"""Receipts: which requests with an idempotency key have stepped a state, and their outputs.

Source of the idea: the ``Idempotency-Key`` header as drafted by the IETF HTTPAPI working group
(draft-ietf-httpapi-idempotency-key-header).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count, repeat
from typing import NamedTuple

from deployments.stateful.protocol import MAX_RECEIPTS, KeyReusedError, Output, Receipt, Receipts


class StepReceipts(NamedTuple):
    """Receipts of the B steps of a batch, as columns that their states share."""

    request_ids: Sequence[str | None]
    fingerprints: Sequence[str]
    steps: Sequence[int]
    outputs: Sequence[Output]

    def row(self, row: int) -> Receipt:
        request_id = self.request_ids[row]
        assert request_id is not None, "a receipt has an idempotency key"
        values = (request_id, self.fingerprints[row], self.steps[row], self.outputs[row])
        return tuple.__new__(Receipt, values)  # in half the time of its constructor


class ReceiptCache(dict[str | None, Receipt | tuple[StepReceipts, int]]):
    """The newest receipts of one state by idempotency key, in the order of their steps.

    Until it is sent in a commit, a receipt is a row of its batch, which costs less to note. Then it
    stands alone: a state must not keep thousands of rows of others in memory.
    """

    __slots__ = ()

    @classmethod
    def of(cls, receipts: Receipts) -> ReceiptCache:
        return cls({each.request_id: each for each in receipts})

    def add(self, request_id: str, entry: Receipt | tuple[StepReceipts, int]) -> None:
        """Add the receipt of a step, which is the latest."""
        self[request_id] = entry
        if len(self) > MAX_RECEIPTS:
            del self[next(iter(self))]

    def find(self, request_id: str, fingerprint: str) -> Receipt | None:
        """Return the receipt of a request that has stepped already.

        Fingerprints of different lengths are not compared: an update may change their form.

        Raises:
            KeyReusedError: it had another input.
        """
        entry = self.get(request_id)
        if entry is None:
            return None
        receipt = _receipt(entry)
        known = receipt.fingerprint
        if known != fingerprint and len(known) == len(fingerprint):
            raise KeyReusedError
        return receipt

    def all(self) -> Receipts:
        return tuple(map(_receipt, self.values()))

    def since(self, step: int) -> Receipts:
        """Return the receipts of later steps, for a commit."""
        later: list[Receipt] = []
        for request_id, entry in reversed(self.items()):
            receipt = _receipt(entry)
            if receipt.step <= step:
                break
            if receipt is not entry:
                self[request_id] = receipt
            later.append(receipt)
        return tuple(reversed(later))


def _receipt(entry: Receipt | tuple[StepReceipts, int]) -> Receipt:
    return entry if isinstance(entry, Receipt) else entry[0].row(entry[1])


def note(caches: Iterable[ReceiptCache], receipts: StepReceipts) -> None:
    """Add the receipt of each row that has an idempotency key to the cache of its state."""
    entries = zip(repeat(receipts), count(), strict=False)
    for cache, id, entry in zip(caches, receipts.request_ids, entries, strict=False):
        if id is not None:
            cache.add(id, entry)
