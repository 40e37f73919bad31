"""How hidden states are spread over authorities, agreed upon through the store.

Every key falls into one of a fixed number of hash slots, and a partition is one authority's share
of them. The layout says how many partitions there are. It stands in the store, where a change of
it begins a new generation with partitions of its own; each partition of the new one waits until
those of the generations before have given up theirs (invariant 10 of :mod:`.protocol`).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from deployments.inference.options import InferenceOptions
from deployments.stateful.protocol import PROTOCOL, AuthorityUnavailableError, Key
from deployments.store import Expected
from models.junctions import SHIPPED, is_shipped
from models.networks.network import Network

N_SLOTS = 64
LAYOUT_ROW = "layout"
_NETWORK = "network"
_ATTEMPTS = 20


class StateStore(Protocol):
    """The part of the store that hidden states need; as in :class:`deployments.store.Store`."""

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


def table_of(app: str) -> str:
    """Return the store's table of an application's hidden states."""
    return f"states:{app}"


def slot_of(key: Key) -> int:
    """Return the hash slot of a key: the same in every process and for every layout."""
    return zlib.crc32("/".join(key).encode()) % N_SLOTS


def shard_of(key: Key, shards: int) -> int:
    """Return the number of the shard that has a key's slot; every shard has a run of them."""
    return slot_of(key) * shards // N_SLOTS


@dataclass(frozen=True)
class Layout:
    """One generation.

    Attributes:
        terms: what replicas and authorities of one generation must agree on.
        earlier: partitions of generations before, which may not have been given up yet.
    """

    generation: int
    shards: int
    terms: dict[str, Any]
    earlier: tuple[Partition, ...] = ()

    @property
    def partitions(self) -> list[Partition]:
        return [Partition(self.generation, shard, self.shards) for shard in range(self.shards)]

    @property
    def network(self) -> str:
        """Digest of the network that the states belong to; of the shipped one where none stands."""
        return str(self.terms.get(_NETWORK, SHIPPED.digest))

    def agrees_with(self, other: Layout) -> bool:
        return (self.shards, self.terms) == (other.shards, other.terms)

    def pack(self) -> bytes:
        return json.dumps([self.generation, self.shards, self.terms, self.earlier]).encode()

    @classmethod
    def unpack(cls, row: bytes) -> Layout:
        generation, shards, terms, earlier = json.loads(row)
        return cls(generation, shards, terms, tuple(Partition(*partition) for partition in earlier))


def layout_of(options: InferenceOptions, network: Network = SHIPPED) -> Layout:
    """Return the layout that the options ask for, as a first generation."""
    terms: dict[str, Any] = {
        "protocol": PROTOCOL,
        "lease_s": options.lease_s,
        "lease_margin_s": options.lease_margin_s,
        "leader_lease_s": options.leader_lease_s,
        "snapshots": options.snapshots,
        "durable": options.durable,
    }
    if not is_shipped(network):
        terms[_NETWORK] = network.digest
    return Layout(1, options.shards, terms)


async def agree_on_layout(
    store: StateStore, table: str, options: InferenceOptions, network: Network = SHIPPED
) -> Layout:
    """Return the present layout, after making it the one that the options ask for.

    Raises:
        AuthorityUnavailableError: others change it all the time.
        StoreUnavailable: the store does not serve.
    """
    wanted = layout_of(options, network)
    for _ in range(_ATTEMPTS):
        row = await store.get(table, LAYOUT_ROW)
        if row is not None:
            present = Layout.unpack(row)
            if present.agrees_with(wanted):
                return present
            remaining = [
                partition
                for partition in (*present.earlier, *present.partitions)
                if await store.get(table, partition.row) is not None
            ]
            wanted = replace(wanted, generation=present.generation + 1, earlier=tuple(remaining))
        puts = {LAYOUT_ROW: wanted.pack()} | {partition.row: b"" for partition in wanted.partitions}
        if await store.change(table, puts, when=Expected(LAYOUT_ROW, row)):
            return wanted
    raise AuthorityUnavailableError("the layout of the hidden states changes all the time")
