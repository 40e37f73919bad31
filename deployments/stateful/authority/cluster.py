"""What the authority asks the cluster that it runs in."""

from __future__ import annotations

from typing import Protocol

from deployments.stateful.layout import Partition


class Cluster(Protocol):
    """Knows which processes live.

    Attributes:
        session: names this start of the cluster; no process of another one lives.
        process: names the authority's own process.
    """

    session: str
    process: str

    async def is_alive(self, replica: str) -> bool:
        """Tell whether a replica may live: False only when its death is certain."""

    async def has_ended(self, process: str) -> bool:
        """Tell whether an authority's process is known to have ended."""

    async def is_current(self) -> bool:
        """Tell whether the cluster knows this process, and no later one, as the partition's.

        Raises:
            AuthorityUnavailableError: nobody can tell now.
        """

    async def give_up(self, partition: Partition) -> None:
        """Ask the authority on a partition of an earlier layout to give the partition up.

        Raises:
            AuthorityUnavailableError: it has not, yet.
        """
