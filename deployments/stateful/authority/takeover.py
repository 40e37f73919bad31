"""How a new life of the authority comes into its partition (invariants 8 and 10)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from deployments.stateful.authority.cluster import Cluster
from deployments.stateful.authority.fenced_writer import FencedWriter, LeadershipRecord
from deployments.stateful.layout import LAYOUT_ROW, Layout, Partition
from deployments.stateful.protocol import AuthorityUnavailableError
from deployments.store import Expected, StoreUnavailable

logger = logging.getLogger("ray.serve")

_PAUSE_S = 0.1


async def wait_for_predecessor(
    before: LeadershipRecord, cluster: Cluster, until: float, clock: Callable[[], float]
) -> None:
    """Return when the life that had the partition before cannot act any more.

    Args:
        until: when its leader_lease is over for certain.
    """
    if not before.process or before.session != cluster.session:
        return
    while clock() < until and not await cluster.has_ended(before.process):
        await asyncio.sleep(_PAUSE_S)


async def wait_for_earlier_layouts(mine: Partition, writer: FencedWriter, cluster: Cluster) -> None:
    """Return when no partition of a layout before that of ``mine`` is left.

    Raises:
        AuthorityUnavailableError: the store does not serve.
    """
    try:
        layout = await writer.store.get(writer.table, LAYOUT_ROW)
        for partition in Layout.unpack(layout).earlier if layout else ():
            if partition.generation >= mine.generation:
                continue  # the present layout is a later one, and waits for this partition
            while not await _is_given_up(partition, writer, cluster):
                await asyncio.sleep(_PAUSE_S)
    except StoreUnavailable as error:
        raise AuthorityUnavailableError(f"the store does not serve: {error}") from error


async def _is_given_up(partition: Partition, writer: FencedWriter, cluster: Cluster) -> bool:
    stored = await writer.store.get(writer.table, partition.row)
    if stored is None:
        return True
    if LeadershipRecord.unpack(stored).session != cluster.session:  # nobody sits there, or will
        unchanged = Expected(partition.row, stored)
        return await writer.store.change(writer.table, {}, [partition.row], when=unchanged)
    try:
        await cluster.give_up(partition)
    except AuthorityUnavailableError as error:
        logger.info("Waiting for %s of an earlier layout: %s", partition, error)
    return False
