"""Whether another cluster has a partition, where two were given one store.

Fencing keeps every write correct even then, but each cluster would step the states, and take the
partitions from the other without end. So an authority writes a heartbeat into the record of its
partition. Another cluster takes the partition over only after that record has not changed for
SILENT_LEASES leases.

A cluster that is cut off from the store, and from nothing else, is silent too, and is not told from
one that is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from deployments.stateful.authority.fenced_writer import LeadershipRecord
from deployments.stateful.layout import Partition, StateStore
from deployments.stateful.protocol import AuthorityUnavailableError

SILENT_LEASES = 2
_PAUSE_S = 0.1


class ClusterClaimedError(AuthorityUnavailableError):
    """Another cluster that is alive has these states."""

    def __init__(self, session: str) -> None:
        super().__init__(
            f"Another Ray cluster ({session}) has the hidden states of this application in the same"
            " store. Give each cluster a separate database (STORE_URL), or another name to the"
            " application, or stop that cluster."
        )
        self.session = session

    def __reduce__(self) -> tuple[type[ClusterClaimedError], tuple[str]]:
        return type(self), (self.session,)


async def await_silence(
    store: StateStore,
    table: str,
    partition: Partition,
    session: str,
    has_ended: Callable[[str], Awaitable[bool]],
    lease_s: float,
) -> LeadershipRecord:
    """Return the record of a partition when no other cluster shows that it has it.

    Args:
        session: of this cluster.
        has_ended: returns whether a process is known to have ended.
        lease_s: of an authority whose record does not tell.

    Raises:
        ClusterClaimedError: another one has it.
        StoreUnavailable: the store does not answer.
    """
    first = await _read(store, table, partition)
    clock = asyncio.get_running_loop().time
    until = clock() + SILENT_LEASES * (first.lease_s or lease_s)
    record = first
    while record.session not in ("", session):
        # One that stepped down has a successor soon, and replicas with leases.
        if record.process and await has_ended(record.process):
            return record
        if record != first:
            raise ClusterClaimedError(record.session)
        if clock() > until:
            return record
        await asyncio.sleep(_PAUSE_S)
        record = await _read(store, table, partition)
    return record


async def _read(store: StateStore, table: str, partition: Partition) -> LeadershipRecord:
    return LeadershipRecord.unpack(await store.get(table, partition.row) or b"")
