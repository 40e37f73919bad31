"""Receipts: which requests with an idempotency key have stepped a state, and their outputs.

Source of the idea: the ``Idempotency-Key`` header as drafted by the IETF HTTPAPI working group
(draft-ietf-httpapi-idempotency-key-header).
"""

from __future__ import annotations

from deployments.stateful.protocol import MAX_RECEIPTS, KeyReusedError, Receipt, Receipts


class ReceiptCache:
    """The newest receipts of one state, in the order of their steps."""

    __slots__ = ("_by_request",)

    def __init__(self, receipts: Receipts = ()) -> None:
        self._by_request = {receipt.request_id: receipt for receipt in receipts}

    def __bool__(self) -> bool:
        return bool(self._by_request)

    def find(self, request_id: str, fingerprint: str) -> Receipt | None:
        """Return the receipt of a request that has stepped already.

        Raises:
            KeyReusedError: it had another input.
        """
        receipt = self._by_request.get(request_id)
        if receipt is not None and receipt.fingerprint != fingerprint:
            raise KeyReusedError
        return receipt

    def add(self, receipt: Receipt) -> None:
        self._by_request[receipt.request_id] = receipt
        if len(self._by_request) > MAX_RECEIPTS:
            del self._by_request[next(iter(self._by_request))]

    def all(self) -> Receipts:
        return tuple(self._by_request.values())

    def since(self, step: int) -> Receipts:
        """Return the receipts of later steps."""
        later: list[Receipt] = []
        for receipt in reversed(self._by_request.values()):
            if receipt.step <= step:
                break
            later.append(receipt)
        return tuple(reversed(later))
