"""Replicas, an authority and the network between them in one event loop, with faults on request."""

from __future__ import annotations

import asyncio
import pickle
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from deployments.stateful.authority.authority import StateAuthority
from deployments.stateful.layout import Layout, Partition, agree_on_layout, shard_of
from deployments.stateful.options import StateOptions
from deployments.stateful.protocol import (
    Authority,
    AuthorityUnavailableError,
    Claimed,
    ClaimPart,
    Grant,
    Hello,
    Key,
    OpenedSession,
    OutcomeUnknownError,
    StateBatch,
    StateError,
)
from deployments.stateful.replica.batcher import Batcher
from deployments.stateful.replica.engine import Model, StatefulEngine
from deployments.stateful.replica.leases import StateLeases
from deployments.stateful.replica.queues import StepResult
from tests.unit.stateful.authorities import TABLE
from tests.unit.stateful.lineage import Asked, History, Outcome, ResetCall
from tests.unit.stateful.memory_store import MemoryStore
from tests.unit.stateful.options import FAST as FAST
from tests.unit.stateful.options import settings as settings


@dataclass
class Network:
    """Times in seconds, chances from 0 to 1. Messages overtake each other."""

    latency_s: tuple[float, float] = (0.0002, 0.001)
    lost_request: float = 0.0
    lost_reply: float = 0.0


class Life:
    """One life of an authority's process, and what it can ask of the cluster.

    Attributes:
        dead: its calls, and all that it does, have ended.
    """

    def __init__(self, world: World, shard: Shard) -> None:
        self._world = world
        self._shard = shard
        self.session = world.session
        world.processes += 1
        self.process = f"node/{world.processes}/0"
        self.calls: set[asyncio.Task[Any]] = set()
        self.dead = False
        self.authority = StateAuthority(
            world.settings,
            world.store,
            TABLE,
            shard.partition,
            self,
            world.model.initial_state(Key("", "")).nbytes,
            on_end=lambda error: shard.ended(self),
            clock=asyncio.get_running_loop().time,
        )

    def call(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Do what was asked for, to the end of it or of this life, whoever waits for it."""

        def ended(call: asyncio.Task[Any]) -> None:
            self.calls.discard(call)
            if not call.cancelled():
                call.exception()  # is heard, also when nobody waits any more

        call = asyncio.create_task(work)
        self.calls.add(call)
        call.add_done_callback(ended)
        return call

    def kill(self) -> None:
        self.dead = True
        self._world.ended.add(self.process)
        self.authority.stop()
        for task in (*self.calls, self.authority._starting, self.authority._retiring):
            if task is not None:
                task.cancel()

    async def is_alive(self, replica: str) -> bool:
        await asyncio.sleep(0.001)
        return replica not in self._world.known_dead

    async def has_ended(self, process: str) -> bool:
        return process in self._world.ended

    async def is_current(self) -> bool:
        await asyncio.sleep(0.0005)
        if self._world.cluster_silent:
            raise AuthorityUnavailableError("the cluster does not answer")
        return self._shard.life is self

    async def retire(self, partition: Partition) -> None:
        await self._world.shard_of_partition(partition).retire()


class Shard:
    """The place of one partition's authority: empty for a while after a kill, then a fresh one."""

    def __init__(self, world: World, partition: Partition) -> None:
        self._world = world
        self.partition = partition
        self.life: Life | None = None

    @property
    def authority(self) -> StateAuthority:
        assert self.life is not None
        return self.life.authority

    def start(self) -> None:
        self.life = Life(self._world, self)

    def stop(self) -> None:
        if self.life is not None:
            self.life.kill()
            self.life = None

    async def kill(self, down_s: float = 0.02) -> None:
        self.stop()
        await asyncio.sleep(down_s)
        if self.life is None:
            self.start()

    def ended(self, life: Life) -> None:
        """Do as Ray does when a process has ended by itself."""
        life.kill()
        if self.life is life:
            self.life = None
            asyncio.get_running_loop().call_later(0.02, self._start_again)

    def _start_again(self) -> None:
        if self.life is None:
            self.start()

    async def retire(self) -> None:
        """Ask the authority to retire, as the next layout does, and end its process when it has."""
        life = self.life
        if life is None:
            raise AuthorityUnavailableError("no authority")
        call = life.call(life.authority.retire())
        await asyncio.wait([call], timeout=5)
        if not call.done() or call.cancelled() or call.exception() is not None:
            raise AuthorityUnavailableError(f"not given up: {call}")
        self.ended(life)


class Wire(Authority):
    """A replica's way to one authority: slow, out of order, and able to fail."""

    def __init__(self, world: World, shard: Shard, replica: Replica) -> None:
        self._world = world
        self._shard = shard
        self._replica = replica

    async def open_session(self, hello: Hello) -> OpenedSession:
        opened: OpenedSession = await self._call("open_session", hello)
        return opened

    async def claim(self, session: int, part: ClaimPart) -> Claimed:
        claimed: Claimed = await self._call("claim", session, part)
        return claimed

    async def listen(self, session: int) -> Any:
        return await self._call("listen", session)

    async def checkout(self, session: int, key: Key, call: int) -> Grant:
        grant: Grant = await self._call("checkout", session, key, call)
        return grant

    async def commit(
        self, session: int, states: StateBatch, released: list[Key], call: int
    ) -> list[Key]:
        refused: list[Key] = await self._call("commit", session, states, released, call)
        return refused

    async def reset(self, session: int, run: str, call: int) -> None:
        await self._call("reset", session, run, call)

    async def close_session(self, session: int) -> None:
        await self._call("close_session", session)

    async def _call(self, method: str, *args: Any) -> Any:
        network, chance = self._world.network, self._world.random.random
        message = pickle.dumps(args)
        await self._travel()
        life = self._shard.life
        if life is None:
            raise AuthorityUnavailableError("no authority")
        if chance() < network.lost_request:
            self._world.messages_lost += 1
            raise AuthorityUnavailableError("the request was lost")
        call = life.call(getattr(life.authority, method)(*pickle.loads(message)))
        await asyncio.wait([call])
        if call.cancelled():
            await self._travel()
            raise AuthorityUnavailableError("the authority was killed")
        error = call.exception()
        reply = None if error else pickle.dumps(call.result())
        await self._travel()
        if chance() < network.lost_reply:
            self._world.messages_lost += 1
            raise AuthorityUnavailableError("the reply was lost")
        if error:
            raise pickle.loads(pickle.dumps(error))
        return pickle.loads(reply or b"")

    async def _travel(self) -> None:
        await self._replica.running()
        await asyncio.sleep(self._world.random.uniform(*self._world.network.latency_s))
        await self._replica.running()


class Replica:
    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.dead = False
        self.faults: list[float] = []
        self._going = asyncio.Event()
        self._going.set()
        self.shards = [
            StateLeases(
                Wire(world, shard, self),
                name,
                world.model.initial_state,
                world.settings,
                shard.partition.generation,
                clock=asyncio.get_running_loop().time,
            )
            for shard in world.shards
        ]
        self.engine = StatefulEngine(self.shards, world.settings)
        self.model: Model = world.model
        self.batcher = Batcher(self.engine, lambda: self.model)

    async def running(self) -> None:
        """Return while the process runs: later if it is paused, never if it was killed."""
        await self._going.wait()

    @property
    def paused(self) -> bool:
        return not self._going.is_set()

    def kill(self) -> None:
        self.dead = True
        self.pause()

    def pause(self) -> None:
        self.faults.append(asyncio.get_running_loop().time())
        self._going.clear()

    def resume(self) -> None:
        self._going.set()


@dataclass
class World:
    """Everything of one test. ``await start(...)`` first."""

    settings: StateOptions = FAST
    network: Network = field(default_factory=Network)
    store: MemoryStore = field(default_factory=MemoryStore)
    session: str = "first"
    seed: int = 0
    n_shards: int = 1
    a_model: Model | None = None

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.store.random = self.random
        self.processes = 0
        self.ended: set[str] = set()
        self.cluster_silent = False
        self.history = History()
        self.model: Model = self.a_model or self.history.model
        self.shards: list[Shard] = []  # of the present layout
        self.every_shard: dict[Partition, Shard] = {}
        self.replicas: list[Replica] = []
        self.clients: list[asyncio.Task[None]] = []
        self.known_dead: set[str] = set()
        self.authority_faults: list[float] = []
        self.messages_lost = 0

    async def start(self, n_replicas: int = 1) -> World:
        await self.lay_out()
        for _ in range(n_replicas):
            await self.add_replica()
        return self

    async def add_replica(self) -> Replica:
        replica = Replica(self, f"replica-{len(self.replicas)}")
        self.replicas.append(replica)
        await replica.engine.start()
        return replica

    async def lay_out(self, shards: int | None = None) -> Layout:
        """Agree on a layout, as a replica does when it starts, and start its authorities."""
        if shards is not None:
            self.settings = self.settings.model_copy(update={"shards": shards})
        else:
            self.settings = self.settings.model_copy(update={"shards": self.n_shards})
        layout = await agree_on_layout(self.store, TABLE, self.settings, "test")
        self.shards = [self.shard_of_partition(partition) for partition in layout.partitions]
        return layout

    def shard_of_partition(self, partition: Partition) -> Shard:
        if partition not in self.every_shard:
            self.every_shard[partition] = Shard(self, partition)
            self.every_shard[partition].start()
        return self.every_shard[partition]

    # What clients do

    def ask(self, replica: Replica, key: Key) -> tuple[Asked, asyncio.Future[StepResult]]:
        """Send one prediction; the history learns how it ends."""
        now = asyncio.get_running_loop().time
        asked = Asked(len(self.history.asked) + 1, key, replica.name, now())
        self.history.asked.append(asked)
        answer = replica.batcher.submit(key, asked.number)

        def ended(answer: asyncio.Future[StepResult]) -> None:
            error = None if answer.cancelled() else answer.exception()
            if replica.dead or replica.paused or isinstance(error, OutcomeUnknownError):
                asked.outcome = Outcome.UNKNOWN
            elif answer.cancelled():
                stepped = asked.number in self.history.model.stepped
                asked.outcome = Outcome.UNKNOWN if stepped else Outcome.CANCELLED
            elif error is not None:
                asked.outcome = Outcome.FAILED
            else:
                asked.outcome = Outcome.ANSWERED
                asked.answered, asked.step = now(), answer.result().step

        answer.add_done_callback(ended)
        return asked, answer

    async def predict(self, replica: Replica, key: Key) -> Asked:
        asked, answer = self.ask(replica, key)
        await asyncio.wait([answer], timeout=20)
        return asked

    async def reset(self, replica: Replica, run: str) -> ResetCall:
        now = asyncio.get_running_loop().time
        call = ResetCall(run, now())
        self.history.resets.append(call)
        try:
            async with asyncio.timeout(10):
                await replica.engine.reset(run)
            call.done = now()
        except (StateError, TimeoutError):
            pass
        return call

    # Faults

    def kill_replica(self, replica: Replica, noticed_after_s: float | None = 0.01) -> None:
        replica.kill()
        if noticed_after_s is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(noticed_after_s, self.known_dead.add, replica.name)

    async def kill_authority(self, key: Key | None = None, down_s: float = 0.02) -> None:
        self.authority_faults.append(asyncio.get_running_loop().time())
        shard = self.shards[shard_of(key, len(self.shards)) if key else 0]
        await shard.kill(down_s)


async def until(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.001)


async def gather(*work: Awaitable[Any]) -> list[Any]:
    async with asyncio.timeout(60):
        return list(await asyncio.gather(*work))
