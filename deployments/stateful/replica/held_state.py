"""One hidden state in a replica's memory, and the answers that wait for its commit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from deployments.stateful.protocol import (
    Floats,
    HiddenStateError,
    Key,
    OutcomeUnknownError,
    Receipts,
    StaleSessionError,
    StateBatch,
    Version,
)
from deployments.stateful.replica.phases import Phase
from deployments.stateful.replica.receipts import ReceiptCache

_NEVER = Version(0, 0)


class HeldCopy(NamedTuple):
    """A state as it was at one moment."""

    key: Key
    version: Version
    hidden: Floats
    receipts: Receipts


class Unanswered(NamedTuple):
    """An answer that waits until its step is committed."""

    step: int
    answer: asyncio.Future[Any]
    outcome: object


@dataclass(eq=False, slots=True)
class HeldState:
    """One state in a replica's memory. A step replaces ``hidden`` (128,), never writes into it.

    Attributes:
        dirty: the newest step is in no commit yet.
        sent: the latest step that was ever sent; from then on it may have been committed.
        committed: the latest step that is known to be committed.
        receipts: of steps whose requests bore an idempotency key.
        unanswered: in the order of their steps.
    """

    key: Key
    phase: Phase
    version: Version = _NEVER
    hidden: Floats = field(default_factory=lambda: np.empty(0, np.float32))
    dirty: bool = False
    sent: int = 0
    committed: int = 0
    receipts: ReceiptCache = field(default_factory=ReceiptCache)
    unanswered: list[Unanswered] = field(default_factory=list)

    @property
    def copy(self) -> HeldCopy:
        return HeldCopy(self.key, self.version, self.hidden, self.receipts.all())

    @property
    def newer_copy(self) -> HeldCopy:
        """The copy with those receipts only that are not committed yet."""
        new = self.receipts.since(self.committed)
        return HeldCopy(self.key, self.version, self.hidden, new)

    def acknowledge(self, up_to_step: int) -> None:
        """Answer what waited for the commit of a step or of an earlier one."""
        self.committed = max(self.committed, up_to_step)
        if not self.unanswered:
            return
        due = [each for each in self.unanswered if each.step <= up_to_step]
        self.unanswered = [each for each in self.unanswered if each.step > up_to_step]
        for each in due:
            if not each.answer.done():  # a disconnected client has cancelled it
                each.answer.set_result(each.outcome)

    def give_up(self) -> None:
        """Fail what waited for a commit: these steps are not, or may not be, part of the state."""
        unanswered, self.unanswered = self.unanswered, []
        for each in unanswered:
            error: HiddenStateError = StaleSessionError("the hidden state has moved meanwhile")
            if each.step <= self.sent:
                error = OutcomeUnknownError()
            if not each.answer.done():
                each.answer.set_exception(error)


def outline_of(copies: Iterable[HeldCopy]) -> StateBatch:
    """Name copies of states for the way to the authority, without the states."""
    listed = list(copies)
    nothing = np.empty((len(listed), 0), np.float32)
    return StateBatch([each.key for each in listed], [each.version for each in listed], nothing)


def batch_of(copies: Iterable[HeldCopy]) -> StateBatch:
    """Pack copies of states for the way to the authority."""
    listed = list(copies)
    if not listed:
        return StateBatch()
    keys, versions, hidden, _ = zip(*listed, strict=True)
    with_receipts = {each.key: each.receipts for each in listed if each.receipts}
    return StateBatch(list(keys), list(versions), np.stack(hidden), with_receipts)
