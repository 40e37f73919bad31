"""Admission of a replica to an application's states: the right cluster, tag and layout.

A replica refuses to start while another cluster has the states
(:mod:`~deployments.stateful.authority.other_clusters`).

States belong to what their tag names, such as a road network. Under another tag a state would be
another entity's, or stepped by a model that never made it. So a replica with another tag refuses
to start while there are states.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from deployments.stateful.authority.fenced_writer import LeadershipRecord
from deployments.stateful.authority.other_clusters import await_silence
from deployments.stateful.authority.snapshots import cluster_stamp, has_stamp, key_of
from deployments.stateful.layout import LAYOUT_ROW, Layout, StateStore, agree_on_layout
from deployments.stateful.options import StateOptions
from deployments.stateful.rolled_back import refuse_rolled_back
from deployments.store import StoreUnavailable

LONGEST_WAIT_S = 10.0
_STORE_TIMEOUT_S = 60.0
_STORE_PAUSE_S = 0.5


HasEnded = Callable[[str], Awaitable[bool]]


class ForeignStatesError(Exception):
    """States are kept that belong to another tag.

    Attributes:
        found: how many, as the end of a sentence.
    """

    def __init__(self, found: str) -> None:
        super().__init__(f"The application's hidden states belong to something else: {found}")
        self.found = found


@dataclass(frozen=True)
class Claimant:
    """The cluster that asks for the states of an application.

    Attributes:
        session: names this start of the cluster.
        tag: names what its states belong to.
    """

    session: str
    tag: str


async def admit(
    store: StateStore, table: str, claimant: Claimant, options: StateOptions, has_ended: HasEnded
) -> Layout:
    """Check cluster and tag, and agree on the layout, waiting for the store to serve.

    Args:
        has_ended: returns whether a process of any cluster is known to have ended.

    Raises:
        ClusterClaimedError, ForeignStatesError, StoreRolledBackError: nothing was changed.
        TimeoutError: the store did not serve within a minute.
    """
    snapshots_within_s = options.snapshot_period_s + _STORE_PAUSE_S
    async with asyncio.timeout(_STORE_TIMEOUT_S):
        while True:
            try:
                await refuse_rolled_back(store, table)
                await await_other_clusters(
                    store, table, claimant.session, has_ended, options.leader_lease_s
                )
                await check_tag(
                    store,
                    table,
                    claimant,
                    restores=options.restores,
                    snapshots_within_s=snapshots_within_s,
                )
                return await agree_on_layout(store, table, options, claimant.tag)
            except StoreUnavailable:  # which the store logs
                await asyncio.sleep(_STORE_PAUSE_S)


async def await_other_clusters(
    store: StateStore, table: str, session: str, has_ended: HasEnded, lease_s: float
) -> None:
    """Return when no other cluster has a partition.

    Raises:
        ClusterClaimedError: one has, and nothing was changed.
        StoreUnavailable: the store does not answer.
    """
    layout = Layout.unpack(await store.get(table, LAYOUT_ROW))
    partitions = (*layout.partitions, *layout.earlier)
    await asyncio.gather(
        *(await_silence(store, table, each, session, has_ended, lease_s) for each in partitions)
    )


async def check_tag(
    store: StateStore,
    table: str,
    claimant: Claimant,
    *,
    restores: bool,
    snapshots_within_s: float = 0.0,
) -> None:
    """Refuse a tag while there are states of another one; nothing is changed.

    Args:
        restores: whether states from before this start of the cluster count, too.
        snapshots_within_s: longest time from a commit to its snapshot. If an authority may be
            alive and there is no snapshot, the check waits for it, up to LONGEST_WAIT_S.

    Raises:
        ForeignStatesError: there are some.
        StoreUnavailable: the store does not answer.
    """
    present = Layout.unpack(await store.get(table, LAYOUT_ROW))
    if present.tag in (None, claimant.tag):
        return
    stamp = None if restores else cluster_stamp(claimant.session)
    kept = await _count(store, table, stamp)
    if not kept and await _has_leader(store, table, present, claimant.session):
        await asyncio.sleep(min(snapshots_within_s, LONGEST_WAIT_S))
        kept = await _count(store, table, stamp)
    if kept:
        raise ForeignStatesError(f"{kept} of these are kept")


async def _count(store: StateStore, table: str, stamp: bytes | None) -> int:
    count = 0
    async for name, value in store.scan(table):
        count += key_of(name) is not None and (stamp is None or has_stamp(value, stamp))
    return count


async def _has_leader(store: StateStore, table: str, layout: Layout, session: str) -> bool:
    """Return whether an authority of this start of the cluster may be alive."""
    partitions = (*layout.partitions, *layout.earlier)
    rows = [await store.get(table, partition.row) for partition in partitions]
    return any(row is not None and LeadershipRecord.unpack(row).session == session for row in rows)
