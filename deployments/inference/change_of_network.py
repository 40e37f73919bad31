"""What another network file means for the hidden states that are kept.

A state is that of a junction, and of what the junction's agent sees and may do. Under another
network it would be another junction's, or stepped by a policy that never made it: so a replica of
another network does not start while there are states.
"""

from __future__ import annotations

import asyncio

from deployments.stateful.authority.fenced_writer import LeadershipRecord
from deployments.stateful.authority.rows import key_of, stamp_of, unpack_copy
from deployments.stateful.layout import LAYOUT_ROW, Layout, StateStore
from models.networks.network import Network

LONGEST_WAIT_S = 10.0


class AnotherNetworkError(Exception):
    """Hidden states are kept that belong to another network."""

    def __init__(self, network: Network, what: str) -> None:
        super().__init__(
            f"The network {network.name} has other junctions, phases or lanes than the one that"
            f" the hidden states of this application belong to, {what}. Serve the network file"
            " that they belong to and reset its runs, or give the application another name."
        )


async def check_network(
    store: StateStore,
    table: str,
    network: Network,
    session: str,
    *,
    all_starts: bool,
    copied_within_s: float = 0.0,
) -> None:
    """Refuse a network while there are hidden states of another one; nothing is changed.

    Args:
        session: of the cluster since its start.
        all_starts: states count that were kept before that start, too.
        copied_within_s: longest time from a commit to its copy. Where an authority may live, and
            no copy is there, it is waited for those that are younger, up to LONGEST_WAIT_S.

    Raises:
        AnotherNetworkError: there are some, or may be some in memories.
        StoreUnavailable: the store does not serve.
    """
    row = await store.get(table, LAYOUT_ROW)
    if row is None:
        return
    present = Layout.unpack(row)
    if present.network == network.digest:
        return
    sits = await _sits(store, table, present, session)
    if sits and not present.terms["snapshots"]:
        raise AnotherNetworkError(network, "of which no copies are kept that would tell their end")
    stamp = None if all_starts else stamp_of(session)
    kept = await _count(store, table, stamp)
    if sits and not kept:
        await asyncio.sleep(min(copied_within_s, LONGEST_WAIT_S))
        kept = await _count(store, table, stamp)
    if kept:
        raise AnotherNetworkError(network, f"and {kept} of these are kept")


async def _count(store: StateStore, table: str, stamp: bytes | None) -> int:
    count = 0
    async for name, value in store.scan(table):
        count += key_of(name) is not None and unpack_copy(value, stamp) is not None
    return count


async def _sits(store: StateStore, table: str, layout: Layout, session: str) -> bool:
    """Tell whether an authority of this start of the cluster may live."""
    rows = [
        await store.get(table, partition.row) for partition in (*layout.partitions, *layout.earlier)
    ]
    return any(row is not None and LeadershipRecord.unpack(row).session == session for row in rows)
