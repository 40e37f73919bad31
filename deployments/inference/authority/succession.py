"""How a new life of the authority comes into its seat (invariants 8 and 10)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from deployments.inference.authority.cluster import Cluster
from deployments.inference.authority.ledger import Ledger, SeatRow
from deployments.inference.layout import LAYOUT_ROW, Layout, Seat
from deployments.inference.protocol import AuthorityUnavailableError
from deployments.store import Expected, StoreUnavailable

logger = logging.getLogger("ray.serve")

_PAUSE_S = 0.1


async def wait_for_predecessor(
    before: SeatRow, cluster: Cluster, until: float, clock: Callable[[], float]
) -> None:
    """Return when the life that had the seat before cannot act any more.

    Args:
        until: when its tenure is over for certain.
    """
    if not before.process or before.session != cluster.session:
        return
    while clock() < until and not await cluster.has_ended(before.process):
        await asyncio.sleep(_PAUSE_S)


async def wait_for_earlier_layouts(mine: Seat, ledger: Ledger, cluster: Cluster) -> None:
    """Return when no seat of a layout before that of ``mine`` is left.

    Raises:
        AuthorityUnavailableError: the store does not serve.
    """
    try:
        layout = await ledger.store.get(ledger.table, LAYOUT_ROW)
        for seat in Layout.unpack(layout).earlier if layout else ():
            if seat.generation >= mine.generation:
                continue  # the present layout is a later one, and waits for this seat
            while not await _is_given_up(seat, ledger, cluster):
                await asyncio.sleep(_PAUSE_S)
    except StoreUnavailable as error:
        raise AuthorityUnavailableError(f"the store does not serve: {error}") from error


async def _is_given_up(seat: Seat, ledger: Ledger, cluster: Cluster) -> bool:
    stored = await ledger.store.get(ledger.table, seat.row)
    if stored is None:
        return True
    if SeatRow.unpack(stored).session != cluster.session:  # nobody sits there, or will
        unchanged = Expected(seat.row, stored)
        return await ledger.store.change(ledger.table, {}, [seat.row], when=unchanged)
    try:
        await cluster.give_up(seat)
    except AuthorityUnavailableError as error:
        logger.info("Waiting for %s of an earlier layout: %s", seat, error)
    return False
