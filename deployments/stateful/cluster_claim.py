"""Which Ray cluster has the hidden states of an application: two on one store would take each
other's partitions by turns, without end.

Fences keep what they decide right even then, but a state would be stepped by whoever had its
partition last. So a cluster writes its name into the table before it asks for anything there, and
one that finds another's name looks whether that one lives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from deployments.stateful.layout import StateStore
from deployments.stateful.protocol import AuthorityUnavailableError
from deployments.store import Expected

CLUSTER_ROW = "cluster"
_ATTEMPTS = 20
_CONNECT_S = 1.0


class ClusterClaimedError(Exception):
    """Another cluster that lives has these hidden states."""


async def listens(address: str) -> bool:
    """Tell whether something takes connections at ``host:port``."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except (OSError, ValueError):  # a TimeoutError is an OSError
        return False
    writer.close()
    return True


async def claim_cluster(
    store: StateStore,
    table: str,
    cluster: str,
    lives: Callable[[str], Awaitable[bool]] = listens,
) -> None:
    """Write down that a cluster has the hidden states of a table.

    Args:
        cluster: address of its GCS, ``host:port``: it stays the same when Ray is started again.
        lives: tells whether a cluster of such a name is there.

    Raises:
        ClusterClaimedError: another one is, and nothing has been changed.
        AuthorityUnavailableError: others write it all the time.
        StoreUnavailable: the store does not serve.
    """
    for _ in range(_ATTEMPTS):
        row = await store.get(table, CLUSTER_ROW)
        present = row.decode() if row else cluster
        if present != cluster and await lives(present):
            raise ClusterClaimedError(
                f"The Ray cluster at {present} has the hidden states of this application in the"
                " same store. Give each cluster a database of its own (STORE_URL), or another name"
                " to the application, or stop that cluster."
            )
        if row == cluster.encode() or await store.change(
            table, {CLUSTER_ROW: cluster.encode()}, when=Expected(CLUSTER_ROW, row)
        ):
            return
    raise AuthorityUnavailableError("another cluster wants the hidden states all the time")
