"""A store that was rolled back: restored from a backup, or failed over with a loss of writes.

Every write of an authority counts up a number in the record of its partition. The authority and its
replicas remember the highest number. If the store has a lower one, it has lost writes: states would
continue from earlier steps, and resets would be undone. So the finder notes that in the store, and
while the note is there, no replica is admitted and no term begins.

A store that has lost a whole term or layout is found otherwise, because the term that begins in its
place may not meet the processes of the lost one. So the cluster remembers every term and layout,
and a term begins only if the store has not lost one.

After a start of the whole cluster there is no process and no memory, and nothing is found.
"""

from __future__ import annotations

from dataclasses import replace

from deployments.stateful.layout import LAYOUT_ROW, Layout, StateStore
from deployments.stateful.protocol import DismissedError
from deployments.store import Expected

ROLLED_BACK_ROW = "rolled-back"
"""Its value is the highest generation of a layout that the finder knows."""


class StoreRolledBackError(DismissedError):
    """The store has lost writes, and nothing is stepped until an operator accepts that."""

    def __init__(
        self,
        text: str = "The store has an earlier version of the hidden states: it was restored from a "
        "backup, or lost writes in a failover. No state is stepped. Bring back the later store, or "
        "accept this one with greenwave accept",
    ) -> None:
        super().__init__(text)  # the argument of unpickling


async def refuse_rolled_back(store: StateStore, table: str) -> None:
    """Check that no process has found the store rolled back.

    Raises:
        StoreRolledBackError: one has.
        StoreUnavailable: the store does not answer.
    """
    if await store.get(table, ROLLED_BACK_ROW) is not None:
        raise StoreRolledBackError


async def accept_rolled_back(store: StateStore, table: str) -> bool:
    """Let states continue from what the store has; return False if it was not rolled back.

    The next replica begins a layout with a higher generation than any that was known, so the epochs
    of its grants are higher, too, and replicas from before are dismissed.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    while (noted := await store.get(table, ROLLED_BACK_ROW)) is not None:
        row = await store.get(table, LAYOUT_ROW)
        present = Layout.unpack(row)
        generation = max(present.generation, int(noted)) + 1
        accepted = replace(
            present,
            generation=generation,
            terms=present.terms | {"rolled_back": generation},  # which no options ask for
            earlier=(*present.earlier, *present.partitions),
        )
        puts = {LAYOUT_ROW: accepted.pack()}
        # A replica that was admitted before the note may change the layout meanwhile.
        if await store.change(table, puts, [ROLLED_BACK_ROW], when=Expected(LAYOUT_ROW, row)):
            return True
    return False
