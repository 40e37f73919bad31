"""A replica: the real stepper and leases in a process of their own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from deployments.stateful.layout import agree_on_layout, shard_of
from deployments.stateful.protocol import AuthorityUnavailableError, DismissedError, Key
from deployments.stateful.replica.leases import StateLeases
from deployments.stateful.replica.session import AbandonedError
from deployments.stateful.replica.shards import ShardedLeases
from deployments.stateful.replica.stepper import Stepper
from deployments.store import StoreUnavailable
from models.policy.form import HIDDEN_DIM
from models.policy.step import PolicyStep
from tests.unit.stateful.simulation.history import LineagePolicy
from tests.unit.stateful.simulation.store import StoreClient
from tests.unit.stateful.simulation.surroundings import Surroundings
from tests.unit.stateful.simulation.wire import Wire


@dataclass
class Source:
    """The policy in service."""

    model: PolicyStep | None


class Replica:
    """Attributes:
    ready: it has its sessions; Serve sends it requests from then on.
    closing, closed: it is being shut down, and has been.
    generation: of its layout.
    """

    def __init__(self, world: Surroundings, name: str) -> None:
        self.name = name
        self.process = world.new_process(name)
        self.options = world.options
        self.generation = 0
        self.ready = self.closing = self.closed = False
        self.shards: list[StateLeases] = []
        self._wires: list[Wire] = []
        self._world = world
        self._starting = self.process.run(world.loop.create_task, self._start())

    async def _start(self) -> None:
        world = self._world
        store = StoreClient(world.store, world.network, self.name)
        while True:
            try:
                layout = await agree_on_layout(store, "states:test", self.options)
                break
            except (StoreUnavailable, AuthorityUnavailableError):
                await asyncio.sleep(0.05)
        world.history.shards_of[self.name] = layout.shards
        self.generation = layout.generation
        world.generation = max(world.generation, layout.generation)
        self._wires = [
            Wire(world, world.actor_of(partition), self.process) for partition in layout.partitions
        ]
        self.shards = [
            StateLeases(
                wire,
                self.name,
                HIDDEN_DIM,
                self.options,
                partition.generation,
                clock=self.process.clock,
            )
            for wire, partition in zip(self._wires, layout.partitions, strict=True)
        ]
        self.leases = ShardedLeases(self.shards)
        policy = LineagePolicy(world.history, self.name, lambda: world.loop.now)
        self.stepper = Stepper(self.leases, Source(policy), self.options)
        await self.leases.start()
        self.ready = True

    @property
    def dead(self) -> bool:
        return self.process.dead

    @property
    def serves(self) -> bool:
        """Whether clients may send it requests: a stalled or cut-off one goes on being asked."""
        return self.ready and not self.dead and not self.closed

    @property
    def is_dismissed(self) -> bool:
        """Whether its layout is over; any other reason not to be healthy is a defect."""
        for shard in self.shards:
            defect = shard._defect
            if defect is not None and not isinstance(defect, (DismissedError, AbandonedError)):
                raise defect
        return any(shard._session._abandoned for shard in self.shards)

    @property
    def has_left(self) -> bool:
        """Whether every authority has confirmed that it has everything."""
        return all(wire.left for wire in self._wires)

    def close(self) -> None:
        self.closing = True
        self.process.run(self._world.loop.create_task, self._close())

    async def _close(self) -> None:
        await self.leases.close()
        await self.stepper.close()
        self.closed = True
        self._world.loop.post(self._world.loop.world, 0.0, self._world.has_closed, self)

    def remembers(self, key: Key) -> list[int]:
        """Return the numbers of the states of a key in this memory."""
        if not self.shards or self.dead:
            return []
        leases = self.shards[shard_of(key, len(self.shards))]
        found = []
        held = leases._held._held.get(key)
        if held is not None and len(held.hidden):
            found.append(int(held.hidden[0]))
        for copy in leases._claims._recent.copies():
            if copy.key == key:
                found.append(int(copy.hidden[0]))
        return [number for number in found if number]
