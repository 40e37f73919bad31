"""What the authority asks the cluster that it runs in."""

from __future__ import annotations

from typing import Protocol

from deployments.inference.layout import Seat


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
        """Tell whether the cluster knows this process, and no later one, as the seat's.

        Raises:
            AuthorityUnavailableError: nobody can tell now.
        """

    async def give_up(self, seat: Seat) -> None:
        """Ask the authority on a seat of an earlier layout to give the seat up.

        Raises:
            AuthorityUnavailableError: it has not, yet.
        """
