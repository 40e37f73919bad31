"""Replicas, an authority and the network between them in one event loop, with faults on request."""

from __future__ import annotations

import asyncio
import pickle
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from deployments.inference.authority.authority import HiddenStateAuthority
from deployments.inference.authority.snapshots import NoSnapshots, Snapshots
from deployments.inference.options import InferenceOptions
from deployments.inference.protocol import (
    Authority,
    AuthorityUnavailableError,
    Claim,
    Grant,
    HiddenStateError,
    Key,
    OpenedSession,
    StateBatch,
)
from deployments.inference.replica.leases import StateLeases
from deployments.inference.replica.shards import ShardedLeases, shard_of
from deployments.inference.replica.stepper import Decision, Stepper
from models.policy.form import HIDDEN_DIM
from models.policy.step import PolicyStep
from tests.unit.inference.lineage import Asked, History, Outcome, ResetCall

FAST = InferenceOptions().model_copy(
    update={
        "lease_s": 0.2,  # less than a config may say
        "lease_margin_s": 0.03,
        "probe_after_s": 0.005,
        "commit_delay_s": 0.003,
        "checkout_timeout_s": 2.0,
    }
)


@dataclass
class Network:
    """Times in seconds, chances from 0 to 1. Messages overtake each other."""

    latency_s: tuple[float, float] = (0.0002, 0.001)
    lost_request: float = 0.0
    lost_reply: float = 0.0


class _Life:
    """One life of the authority's process: its calls die with it."""

    def __init__(self, authority: HiddenStateAuthority) -> None:
        self.authority = authority
        self.calls: set[asyncio.Task[Any]] = set()
        self.dead = False
        self.sweeper = asyncio.create_task(self._sweep())

    async def _sweep(self) -> None:
        while True:
            self.authority.sweep()
            await asyncio.sleep(0.01)

    def kill(self) -> None:
        self.dead = True
        self.sweeper.cancel()
        for call in self.calls:
            call.cancel()


class Shard:
    """The authority's place: empty for a while after a kill, then a fresh one."""

    def __init__(self, world: World, snapshots: Callable[[], Snapshots]) -> None:
        self._world = world
        self._snapshots = snapshots
        self.life: _Life | None = None

    @property
    def authority(self) -> HiddenStateAuthority:
        assert self.life is not None
        return self.life.authority

    def start(self, restarted: bool = False) -> None:
        self.life = _Life(
            HiddenStateAuthority(
                self._world.settings,
                self._snapshots(),
                is_alive=self._world.is_alive,
                restarted=restarted,
                clock=asyncio.get_running_loop().time,
            )
        )

    def stop(self) -> None:
        assert self.life is not None
        self.life.kill()
        self.life = None

    async def kill(self, down_s: float = 0.02) -> None:
        self.stop()
        await asyncio.sleep(down_s)
        self.start(restarted=True)


class Wire(Authority):
    """A replica's way to one authority: slow, out of order, and able to fail."""

    def __init__(self, world: World, shard: Shard, replica: Replica) -> None:
        self._world = world
        self._shard = shard
        self._replica = replica

    async def open_session(self, replica: str, claim: Claim) -> OpenedSession:
        opened: OpenedSession = await self._call("open_session", replica, claim)
        return opened

    async def listen(self, session: int) -> Any:
        return await self._call("listen", session)

    async def checkout(self, session: int, key: Key) -> Grant:
        grant: Grant = await self._call("checkout", session, key)
        return grant

    async def commit(self, session: int, states: StateBatch, released: list[Key]) -> list[Key]:
        refused: list[Key] = await self._call("commit", session, states, released)
        return refused

    async def reset(self, run: str) -> int:
        epoch: int = await self._call("reset", run)
        return epoch

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
        work = getattr(life.authority, method)(*pickle.loads(message))
        call: asyncio.Task[Any] = asyncio.create_task(work)
        life.calls.add(call)
        call.add_done_callback(life.calls.discard)
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


@dataclass
class Source:
    """The policy in service."""

    model: PolicyStep | None


class Replica:
    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.dead = False
        self.faults: list[float] = []
        self._going = asyncio.Event()
        self._going.set()
        self.shards = [
            StateLeases(Wire(world, shard, self), name, HIDDEN_DIM, world.settings)
            for shard in world.shards
        ]
        self.leases = ShardedLeases(self.shards)
        self.source = Source(world.policy)
        self.stepper = Stepper(self.leases, self.source, world.settings)

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

    settings: InferenceOptions = FAST
    network: Network = field(default_factory=Network)
    snapshots: Callable[[], Snapshots] = NoSnapshots
    seed: int = 0
    n_shards: int = 1
    policy: PolicyStep | None = None

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.history = History()
        self.policy = self.policy or self.history.policy
        self.shards = [Shard(self, self.snapshots) for _ in range(self.n_shards)]
        self.replicas: list[Replica] = []
        self.clients: list[asyncio.Task[None]] = []
        self.known_dead: set[str] = set()
        self.authority_faults: list[float] = []
        self.messages_lost = 0

    async def start(self, n_replicas: int = 1) -> World:
        for shard in self.shards:
            shard.start()
        for _ in range(n_replicas):
            await self.add_replica()
        return self

    async def add_replica(self) -> Replica:
        replica = Replica(self, f"replica-{len(self.replicas)}")
        self.replicas.append(replica)
        await replica.leases.start()
        return replica

    async def is_alive(self, replica: str) -> bool:
        await asyncio.sleep(0.001)
        return replica not in self.known_dead

    # What clients do

    def ask(self, replica: Replica, key: Key) -> tuple[Asked, asyncio.Future[Decision]]:
        """Send one prediction; the history learns how it ends."""
        now = asyncio.get_running_loop().time
        asked = Asked(len(self.history.asked) + 1, key, replica.name, now())
        self.history.asked.append(asked)
        answer = replica.stepper.submit(key, [float(asked.number)])

        def ended(answer: asyncio.Future[Decision]) -> None:
            failed = not answer.cancelled() and answer.exception() is not None
            if replica.dead or replica.paused:
                asked.outcome = Outcome.UNKNOWN
            elif answer.cancelled():
                stepped = asked.number in self.history.policy.stepped
                asked.outcome = Outcome.UNKNOWN if stepped else Outcome.CANCELLED
            elif failed:
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
                await replica.leases.reset(run)
            call.done = now()
        except (HiddenStateError, TimeoutError):
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
        shard = self.shards[shard_of(key, self.n_shards) if key else 0]
        await shard.kill(down_s)


def settings(**changes: Any) -> InferenceOptions:
    """Return the fast settings with some changed, in or out of range."""
    assert changes.keys() <= InferenceOptions.model_fields.keys()
    return FAST.model_copy(update=changes)


async def until(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.001)


async def gather(*work: Awaitable[Any]) -> list[Any]:
    async with asyncio.timeout(60):
        return list(await asyncio.gather(*work))
