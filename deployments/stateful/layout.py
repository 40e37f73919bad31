"""How states are spread over authorities, agreed upon through the store.

Every key belongs to one of a fixed number of hash slots, and a partition is one authority's share
of the slots. The layout in the store names the number of partitions. A change of it begins a new
generation with separate partitions; each of them waits until the partitions of the earlier
generations have been retired (invariant 10 of :mod:`.protocol`).
"""

from __future__ import annotations

import json
import secrets
import zlib
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from deployments.stateful.options import StateOptions
from deployments.stateful.protocol import PROTOCOL, AuthorityUnavailableError, Key
from deployments.store import Expected

N_SLOTS = 64
LAYOUT_ROW = "layout"
_TAG = "network"  # the name in the store, older than the engine
_ID = "id"
_ATTEMPTS = 20


class StateStore(Protocol):
    """The part of the store that the engine needs; as in :class:`deployments.store.Store`."""

    async def get(self, table: str, key: str) -> bytes | None: ...

    async def change(
        self,
        table: str,
        puts: Mapping[str, bytes],
        deletes: Collection[str] = (),
        *,
        when: Expected,
    ) -> bool: ...

    def scan(self, table: str) -> AsyncIterator[tuple[str, bytes]]: ...


class Partition(NamedTuple):
    """The share of one authority: shard ``shard`` of ``shards`` in a generation of the layout."""

    generation: int = 1
    shard: int = 0
    shards: int = 1

    @property
    def row(self) -> str:
        return f"seat/{self.generation}/{self.shard}"

    def has(self, key: Key) -> bool:
        return self.shards == 1 or shard_of(key, self.shards) == self.shard


class Cluster(Protocol):
    """What an authority asks the cluster that it runs in.

    Attributes:
        session: names this start of the cluster; no process of another start is alive.
        process: names the authority's own process.
    """

    session: str
    process: str

    async def is_alive(self, replica: str) -> bool:
        """Return whether a replica may be alive; False only when its death is certain."""

    async def has_ended(self, process: str) -> bool:
        """Return whether an authority's process is known to have ended."""

    async def is_current(self) -> bool:
        """Return whether the cluster knows this process, and no later one, for the partition.

        Raises:
            AuthorityUnavailableError: the cluster does not answer.
        """

    async def note(self, name: str, value: str) -> str:
        """Keep a value in the memory of this start of the cluster, which outlives its processes.

        Returns:
            The value that was kept first under this name.

        Raises:
            AuthorityUnavailableError: the cluster does not answer.
        """

    async def noted(self, prefix: str) -> list[str]:
        """Return the names that begin with the prefix and have a value.

        Raises:
            AuthorityUnavailableError: the cluster does not answer.
        """

    async def retire(self, partition: Partition) -> None:
        """Ask the authority of a partition in an earlier layout to retire it.

        Raises:
            AuthorityUnavailableError: it is not retired yet.
        """


def table_of(app: str) -> str:
    """Return the store's table of an application's states."""
    return f"states:{app}"


def slot_of(key: Key) -> int:
    """Return the hash slot of a key: the same in every process and layout."""
    return zlib.crc32("/".join(key).encode()) % N_SLOTS


def shard_of(key: Key, shards: int) -> int:
    """Return the number of the shard that has a key's slot. Every shard has a range of slots."""
    return slot_of(key) * shards // N_SLOTS


@dataclass(frozen=True)
class Layout:
    """One generation.

    Attributes:
        terms: what the replicas and authorities of one generation must agree on, and its id.
        earlier: partitions of earlier generations that may not have been retired yet.
    """

    generation: int
    shards: int
    terms: dict[str, Any]
    earlier: tuple[Partition, ...] = ()

    @property
    def partitions(self) -> list[Partition]:
        return [Partition(self.generation, shard, self.shards) for shard in range(self.shards)]

    @property
    def tag(self) -> str | None:
        """What the states belong to; None in layouts that were made before tags."""
        return self.terms.get(_TAG)

    @property
    def id(self) -> str:
        """Tells it from another layout of the same generation; "" in layouts from before ids."""
        return str(self.terms.get(_ID, ""))

    def agrees_with(self, other: Layout) -> bool:
        other_terms = other.terms | {_ID: self.id}
        return (self.shards, self.terms | {_ID: self.id}) == (other.shards, other_terms)

    def pack(self) -> bytes:
        return json.dumps([self.generation, self.shards, self.terms, self.earlier]).encode()

    @classmethod
    def unpack(cls, row: bytes | None) -> Layout:
        """Return the layout in a row; without one, the layout before the first."""
        if row is None:
            return cls(0, 1, {})
        generation, shards, terms, earlier = json.loads(row)
        return cls(generation, shards, terms, tuple(Partition(*each) for each in earlier))


def layout_of(options: StateOptions, tag: str) -> Layout:
    """Return the layout that the options ask for, as a first generation."""
    terms = {
        "protocol": PROTOCOL,
        "lease_s": options.lease_s,
        "commits_reach_store": options.commits_reach_store,
        _TAG: tag,
        _ID: secrets.token_hex(8),
    }
    return Layout(1, options.shards, terms)


async def agree_on_layout(store: StateStore, table: str, options: StateOptions, tag: str) -> Layout:
    """Return the present layout, after making it the one that the options ask for.

    Args:
        tag: names what the states belong to.

    Raises:
        AuthorityUnavailableError: other replicas keep changing it.
        StoreUnavailable: the store does not answer.
    """
    wanted = layout_of(options, tag)
    for _ in range(_ATTEMPTS):
        row = await store.get(table, LAYOUT_ROW)
        present = Layout.unpack(row)
        if present.agrees_with(wanted):
            return present
        remaining = [
            partition
            for partition in (*present.earlier, *present.partitions)
            if await store.get(table, partition.row) is not None
        ]
        layout = replace(wanted, generation=present.generation + 1, earlier=tuple(remaining))
        puts = {LAYOUT_ROW: layout.pack()} | {each.row: b"" for each in layout.partitions}
        if await store.change(table, puts, when=Expected(LAYOUT_ROW, row)):
            return layout
    raise AuthorityUnavailableError(
        f"The layout of the hidden states changed {_ATTEMPTS} times in a row. Replicas with "
        "different options may be starting at the same time"
    )
