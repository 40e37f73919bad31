"""A replica: the real engine and batcher in a process of their own."""

from __future__ import annotations

import asyncio
from functools import partial

from deployments.stateful.admission import Claimant, admit
from deployments.stateful.authority.fenced_writer import LeadershipRecord
from deployments.stateful.layout import Partition
from deployments.stateful.protocol import (
    AuthorityUnavailableError,
    DismissedError,
    Key,
    SessionAbandonedError,
)
from deployments.stateful.replica.batcher import Batcher
from deployments.stateful.replica.engine import StatefulEngine
from deployments.stateful.replica.leases import StateLeases
from deployments.stateful.replica.pending import PendingSteps
from deployments.stateful.replica.phases import Phase
from deployments.stateful.rolled_back import StoreRolledBackError
from tests.unit.stateful.simulation.actors import TABLE
from tests.unit.stateful.simulation.history import LineageModel
from tests.unit.stateful.simulation.remote_authority import RemoteAuthority
from tests.unit.stateful.simulation.store import StoreClient

CANARY = "canary"
POLICIES = ("", CANARY)
WITH_STATE = (Phase.OWNED, Phase.RELEASING)


class Replica:
    """A replica of Serve.

    Attributes:
        ready: it has its sessions, and requests are sent to it.
        closing, closed: it is being shut down, and has been.
        canary_runs: that the canary answers here, which other replicas may not know yet.
    """

    def __init__(self, cluster, name: str) -> None:
        self.name = name
        self.process = cluster.new_process(name)
        self.options = cluster.options
        self.session = cluster.session
        self.ready = self.closing = self.closed = False
        self.canary_runs = cluster.canary_runs
        self.shards: list[StateLeases] = []
        self._authorities: list[RemoteAuthority] = []
        self._cluster = cluster
        self._starting = self.process.run(cluster.loop.create_task, self._start())

    async def _start(self) -> None:
        cluster = self._cluster
        store = StoreClient(cluster.store, cluster.network, self.name)
        while True:
            try:
                claimant = Claimant(self.session, "test")
                layout = await admit(store, TABLE, claimant, self.options, self._has_ended)
                break
            except (AuthorityUnavailableError, StoreRolledBackError):
                await asyncio.sleep(0.05)
        cluster.history.shards_of[self.name] = layout.shards
        steppers = {
            policy: LineageModel(
                cluster.history, self.name, cluster.form, lambda: cluster.loop.now, policy
            )
            for policy in POLICIES
        }
        pending = PendingSteps()
        for partition in layout.partitions:
            authority = RemoteAuthority(cluster, cluster.actor_of(partition), self.process)
            self._authorities.append(authority)
            self.shards.append(
                StateLeases(
                    authority,
                    self.name,
                    steppers[""].initial_state,
                    self.options,
                    partition.generation,
                    pending=pending,
                )
            )
        self.engine = StatefulEngine(self.shards, self.options)
        self._batchers = {
            policy: Batcher(self.engine, partial(steppers.get, policy), policy)
            for policy in POLICIES
        }
        self._batchers[CANARY].fallback = self._batchers[""]
        await self.engine.start()
        self.ready = True

    async def _has_ended(self, process: str) -> bool:
        return bool(self._cluster.has_ended(process))

    def batcher_of(self, run: str) -> Batcher:
        return self._batchers[CANARY if run in self.canary_runs else ""]

    @property
    def dead(self) -> bool:
        return bool(self.process.dead)

    @property
    def serves(self) -> bool:
        """Whether requests are sent to it, even while it is stalled or cut off."""
        return self.ready and not self.dead and not self.closed

    @property
    def is_dismissed(self) -> bool:
        """Whether its layout is over; any other reason to be unhealthy is a defect."""
        for shard in self.shards:
            defect = shard._defect
            if defect is not None and not isinstance(
                defect, (DismissedError, SessionAbandonedError)
            ):
                raise defect
        return any(shard._session._abandoned for shard in self.shards)

    @property
    def has_left(self) -> bool:
        """Whether every authority has confirmed the end of the session."""
        return all(authority.left for authority in self._authorities)

    def owns(self, key: Key) -> bool:
        """Return whether it may step a state now."""
        return self.process.run(self.engine.leases_of(key).owned, key) is not None

    def knows_lost_writes(self, partition: Partition) -> bool:
        """Return whether the store has fewer writes of a partition than it has learned of."""
        record = LeadershipRecord.unpack(self._cluster.store.rows.get(partition.row, b""))
        return any(
            each.seen.writes >= record.writes
            for each in self._authorities
            if each.partition == partition
        )

    def close(self) -> None:
        self.closing = True
        self.process.run(self._cluster.loop.create_task, self._close())

    async def _close(self) -> None:
        await self.engine.close()
        for batcher in self._batchers.values():
            await batcher.close()
        self.closed = True
        self._cluster.loop.post(
            self._cluster.loop.environment, 0.0, self._cluster.note_closed, self
        )

    def numbers_of(self, key: Key) -> list[int]:
        """Return the numbers of the states of a key in its memory."""
        if not self.shards or self.dead:
            return []
        leases = self.engine.leases_of(key)
        held = leases._held._held.get(key)
        states = [held.state] if held is not None and held.phase in WITH_STATE else []
        recent = self.process.run(leases._claims._recent.copies)  # by the clock of this process
        states += [copy.state for copies in recent for copy in copies if copy.key == key]
        return [number for state in states if (number := int(state.flat[0]))]
