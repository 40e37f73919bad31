"""A replica: the real stepper and leases in a process of their own."""

from __future__ import annotations

import asyncio

from deployments.stateful.layout import agree_on_layout, shard_of
from deployments.stateful.protocol import (
    AuthorityUnavailableError,
    DismissedError,
    Key,
    SessionAbandonedError,
)
from deployments.stateful.replica.batcher import Batcher
from deployments.stateful.replica.engine import StatefulEngine
from deployments.stateful.replica.leases import StateLeases
from deployments.store import StoreUnavailable
from tests.unit.stateful.simulation.history import LineageModel
from tests.unit.stateful.simulation.store import StoreClient
from tests.unit.stateful.simulation.surroundings import Surroundings
from tests.unit.stateful.simulation.wire import Wire


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
                layout = await agree_on_layout(store, "states:test", self.options, "test")
                break
            except (StoreUnavailable, AuthorityUnavailableError):
                await asyncio.sleep(0.05)
        world.history.shards_of[self.name] = layout.shards
        self.generation = layout.generation
        world.generation = max(world.generation, layout.generation)
        self._wires = [
            Wire(world, world.actor_of(partition), self.process) for partition in layout.partitions
        ]
        model = LineageModel(world.history, self.name, world.form, lambda: world.loop.now)
        self.shards = [
            StateLeases(
                wire,
                self.name,
                model.initial_state,
                self.options,
                partition.generation,
                clock=self.process.clock,
            )
            for wire, partition in zip(self._wires, layout.partitions, strict=True)
        ]
        self.engine = StatefulEngine(self.shards, self.options)
        self.batcher = Batcher(self.engine, lambda: model)
        await self.engine.start()
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
            if defect is not None and not isinstance(
                defect, (DismissedError, SessionAbandonedError)
            ):
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
        await self.engine.close()
        await self.batcher.close()
        self.closed = True
        self._world.loop.post(self._world.loop.world, 0.0, self._world.has_closed, self)

    def remembers(self, key: Key) -> list[int]:
        """Return the numbers of the states of a key in this memory."""
        if not self.shards or self.dead:
            return []
        leases = self.shards[shard_of(key, len(self.shards))]
        found = []
        held = leases._held._held.get(key)
        if held is not None and held.state.size:
            found.append(int(held.state.flat[0]))
        for copy in leases._claims._recent.copies():
            if copy.key == key:
                found.append(int(copy.state.flat[0]))
        return [number for number in found if number]
