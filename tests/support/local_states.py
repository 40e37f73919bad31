"""An engine on a table in a temporary folder, without Ray and without a home."""

import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deployments.stateful.engine import Engine
from deployments.stateful.page import Page
from deployments.stateful.row import RowForm
from deployments.stateful.table import Read, Table


class LocalShard:
    """Implements :class:`deployments.stateful.batcher.Shard`; the store has every step at once."""

    connected = True

    def __init__(self, table: Any) -> None:
        self.table = table

    async def copied(self, table: Any, number: int) -> None:
        pass

    async def close(self) -> None:
        pass


def open_table(
    folder: Path,
    form: RowForm,
    max_states: int = 100_000,
    map_size: int = 1 << 28,
    kind: type[Table] = Table,
) -> Table:
    """Open the table in a folder, created if necessary, for one process."""
    page = folder / "page"
    if not page.exists():
        page.write_bytes(bytes(Page.SIZE))
    opened = Page(page)
    opened.valid_until = math.inf
    table = kind(folder / "table", opened, form, map_size)
    table.set_limit(max_states)
    return table


def stepped(read: Read, now: int = 0, **receipts: Any) -> Read:
    """Return rows after a step that leaves their states."""
    every = range(len(read.rows.versions))
    read.rows.advance(every, read.rows.states(every), now, **receipts)
    return read


@contextmanager
def local_engine(form: RowForm, max_states: int = 100_000) -> Iterator[Engine]:
    """Yield an engine on a new table."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="greenwave-test-") as folder:
        table = open_table(Path(folder), form, max_states)
        yield Engine([LocalShard(table)], form)
        table.close()
