"""How the runs of an application are spread over shards, agreed upon through the store.

The store's table of an application has the layout, a record for each shard, and the copies of the
rows of all shards. So another number of shards needs no copy to be moved.
"""

from __future__ import annotations

import asyncio
import json
import logging
import zlib
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from deployments.stateful.errors import StateError, UnavailableError
from deployments.stateful.term import HomeRecord, record_row
from deployments.store import Expected, Store
from deployments.store.interface import batches

logger = logging.getLogger("ray.serve")

LEASE_S = 2.0
"""Time for which a home may act after it last confirmed its term."""
MARGIN = 9 / 8
"""Factor of a lease after which others may rely on its end, with clocks of different speeds."""
SILENCE_S = 2 * LEASE_S
"""A home of another cluster that writes nothing for so long has ended."""

LAYOUT_ROW = "layout"
_COPY = "s/"
_PAUSE_S = 0.1
_IN_USE = (
    "The hidden states of this application are in use, by replicas with another number of shards or"
    " another network, or in another cluster. Stop these first"
)

HasEnded = Callable[[str], Awaitable[bool]]


class ForeignStatesError(StateError):
    """States are kept that belong to another tag, or have another form.

    Attributes:
        found: how many, as the end of a sentence.
    """

    def __init__(self, found: str) -> None:
        super().__init__(found)  # the argument of unpickling
        self.found = found

    def __str__(self) -> str:
        return f"The application's hidden states belong to something else: {self.found}"


class OtherLayoutError(UnavailableError):
    """The application has another layout; this home or replica cannot serve it any more."""

    def __init__(self, text: str = "The hidden states have another layout") -> None:
        super().__init__(text)  # the argument of unpickling


class Layout(NamedTuple):
    """What the replicas and homes of an application must agree on.

    Attributes:
        tag: names what the states belong to.
        form: of the rows.
    """

    shards: int
    tag: str
    form: str

    def pack(self) -> bytes:
        return json.dumps(self._asdict()).encode()


def table_of(app: str) -> str:
    """Return the store's table of an application's states."""
    return f"states:{app}"


def shard_of(run: str, shards: int) -> int:
    """Return the number of the shard of a run."""
    return zlib.crc32(run.encode()) % shards


def copy_row(name: bytes) -> str:
    """Return the key of a row's copy in the store."""
    return _COPY + name.decode().replace("\0", "\x1f")


def name_of_copy(row: str) -> bytes | None:
    """Return the name of the row of which this is the copy; None if it is something else."""
    return row[len(_COPY) :].replace("\x1f", "\0").encode() if row.startswith(_COPY) else None


async def await_end(
    store: Store, table: str, shard: int, has_ended: HasEnded
) -> tuple[HomeRecord, bytes | None]:
    """Return the record of a shard, and its row, when its home and what it allowed have ended.

    Raises:
        UnavailableError: the home acts.
        StoreUnavailable: the store does not answer.
    """
    clock = asyncio.get_running_loop().time
    stored = await store.get(table, record_row(shard))
    first = HomeRecord.unpack(stored)
    if not first.process:
        return first, stored
    ended = await has_ended(first.process)
    until = clock() + (first.lease_s * MARGIN if ended else SILENCE_S)
    while clock() < until:
        await asyncio.sleep(_PAUSE_S)
        if await store.get(table, record_row(shard)) != stored:
            raise UnavailableError(_IN_USE)
    return first, stored


async def agree_on_layout(
    store: Store,
    table: str,
    wanted: Layout,
    dismiss: Callable[[Layout, int, bool], Awaitable[None]],
    has_ended: HasEnded,
) -> None:
    """Make the wanted layout the present one, unless it is.

    Args:
        dismiss: raises ForeignStatesError if this cluster has a home of the present layout and the
            shard that has states; otherwise it lets the home leave, if that is to be.

    Raises:
        ForeignStatesError: there are states of another tag or form; nothing was changed.
        UnavailableError: a home of another layout acts, or the layout changes at the same time.
        StoreUnavailable: the store does not answer.
    """
    row = await store.get(table, LAYOUT_ROW)
    if row == wanted.pack():
        return
    found = None if row is None else json.loads(row)
    if isinstance(found, list):
        await _remove_obsolete(store, table)
        row = found = None
    shards = wanted.shards
    if found is not None:
        present = Layout(**found)
        shards = max(shards, present.shards)
        try:
            for leaves in (False, True):
                homes = (dismiss(present, shard, leaves) for shard in range(present.shards))
                await asyncio.gather(*homes)
        except ForeignStatesError as error:
            raise error if present[1:] != wanted[1:] else UnavailableError(_IN_USE) from error
    waits = (await_end(store, table, shard, has_ended) for shard in range(shards))
    records = await asyncio.gather(*waits)
    if found is not None and present[1:] != wanted[1:]:
        rows = [row async for row, _ in store.scan(table) if name_of_copy(row) is not None]
        if rows:
            raise ForeignStatesError(f"{len(rows)} of these are kept")
    # Every record changes with the layout: a home that has read the old one cannot begin its term.
    puts = {LAYOUT_ROW: wanted.pack()}
    for shard, (record, _) in enumerate(records):
        fenced = HomeRecord(term=record.term + 1, writes=record.writes + 1)
        puts[record_row(shard)] = fenced.pack()
    if not await store.change(table, puts, when=Expected(LAYOUT_ROW, row)):
        raise UnavailableError("Replicas with another layout of hidden states are starting, too")


async def _remove_obsolete(store: Store, table: str) -> None:
    """Remove the rows of an earlier version, which had another form."""
    for rows in batches([row async for row, _ in store.scan(table)]):
        await store.change(table, {}, rows)
    logger.warning("Hidden states in the form of an earlier version were removed")
