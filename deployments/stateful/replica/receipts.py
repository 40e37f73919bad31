"""Receipts: which requests with an idempotency key have stepped a state, and their outputs.

Source of the idea: the ``Idempotency-Key`` header as drafted by the IETF HTTPAPI working group
(draft-ietf-httpapi-idempotency-key-header).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deployments.stateful.protocol import (
    MAX_RECEIPTS,
    KeyReusedError,
    Output,
    Receipt,
    Receipts,
    made,
)


class ReceiptCache(dict[str, Receipt]):
    """The newest receipts of one state by idempotency key, in the order of their steps."""

    __slots__ = ()

    @classmethod
    def of(cls, receipts: Receipts) -> ReceiptCache:
        return cls({each.request_id: each for each in receipts})

    def add(self, receipt: Receipt) -> None:
        """Add the receipt of a step, which is the latest."""
        self[receipt[0]] = receipt
        if len(self) > MAX_RECEIPTS:
            del self[next(iter(self))]

    def find(self, request_id: str, fingerprint: str) -> Receipt | None:
        """Return the receipt of a request that has stepped already.

        Fingerprints of different lengths are not compared: an update may change their form.

        Raises:
            KeyReusedError: it had another input.
        """
        receipt = self.get(request_id)
        if receipt is None:
            return None
        known = receipt.fingerprint
        if known != fingerprint and len(known) == len(fingerprint):
            raise KeyReusedError
        return receipt

    def all(self) -> Receipts:
        return tuple(self.values())

    def since(self, step: int) -> Receipts:
        """Return the receipts of later steps, for a commit."""
        later: list[Receipt] = []
        for receipt in reversed(self.values()):
            if receipt.step <= step:
                break
            later.append(receipt)
        later.reverse()
        return tuple(later)


def note(
    caches: Iterable[ReceiptCache],
    request_ids: Sequence[str | None],
    fingerprints: Sequence[str],
    steps: Sequence[int],
    outputs: Sequence[Output],
) -> None:
    """Add the receipt of each of B steps that has an idempotency key to the cache of its state."""
    receipts = made(Receipt, request_ids, fingerprints, steps, outputs)
    for cache, receipt in zip(caches, receipts, strict=True):
        if receipt[0] is not None:
            cache.add(receipt)
