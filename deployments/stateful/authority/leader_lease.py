"""For how long an authority may be sure that nobody has succeeded it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from deployments.stateful.authority.cluster import Cluster
from deployments.stateful.authority.fenced_writer import FencedWriter, SupersededError
from deployments.stateful.protocol import AuthorityUnavailableError


class LeaderLease:
    """The right to act, which has to be confirmed again and again.

    A successor takes the partition in the store, and then waits for ``leader_lease_s`` unless it
    knows that this process has ended (invariant 8). So whoever saw its own name in the partition
    may act for that long. While the store is out of reach the cluster is asked instead: a
    successor that it has not started cannot have taken the partition.

    Args:
        clock: in seconds.
    """

    def __init__(
        self,
        writer: FencedWriter,
        cluster: Cluster,
        leader_lease_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._writer = writer
        self._cluster = cluster
        self.leader_lease_s = leader_lease_s
        self._clock = clock
        self._until = -1.0

    @property
    def certain(self) -> bool:
        return self._clock() < self._until

    def begin(self, taken_at: float) -> None:
        """Count from a moment before the partition was taken."""
        self._until = taken_at + self.leader_lease_s

    async def keep(self) -> None:
        """Confirm it for ever.

        Raises:
            SupersededError: it is over for good.
        """
        while True:
            await asyncio.sleep(self.leader_lease_s / 4)
            await self.confirm()

    async def confirm(self) -> None:
        asked_at = self._clock()
        try:
            async with asyncio.timeout(self.leader_lease_s / 4):  # one that hangs is out of reach
                mine = await self._writer.is_mine()
        except (AuthorityUnavailableError, TimeoutError):
            asked_at = self._clock()
            try:
                mine = await self._cluster.is_current()
            except AuthorityUnavailableError:
                return
        if not mine:
            raise SupersededError
        self._until = asked_at + self.leader_lease_s
