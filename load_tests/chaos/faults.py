"""What may happen to a running system, and what of it may cost steps that were answered."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import psutil

from load_tests.chaos.stage import Stage, until

PAUSE_S = 5.0

UNCOMMITTED: Mapping[str, float] = {"memory": 0.01, "store_async": 0.01}
UNSAVED: Mapping[str, float] = {"memory": 1.1, "actor": 1.1, "store_async": 0.01}


@dataclass(frozen=True)
class Fault:
    """One thing that may happen.

    Attributes:
        inflict: does it, and returns when the system is told to be as before.
        replicas: of the application beforehand.
        may_cost: by mode, how long before it a lost step may have been answered, in seconds; in a
            mode that is not named, nothing may be lost.
    """

    name: str
    about: str
    inflict: Callable[[Stage], Awaitable[None]]
    replicas: int = 2
    may_cost: Mapping[str, float] = field(default_factory=dict)


async def _nothing(stage: Stage) -> None:
    pass


async def _kill_replica(stage: Stage) -> None:
    replicas = await asyncio.to_thread(stage.replicas)
    stage.signal(signal.SIGKILL, replicas[:1])
    await until(lambda: len(stage.replicas()) == len(replicas))


async def _kill_actor(stage: Stage) -> None:
    actors = await asyncio.to_thread(stage.state_actors)
    stage.signal(signal.SIGKILL, actors)
    await until(lambda: len(stage.state_actors()) == len(actors))


async def _kill_replica_and_actor(stage: Stage) -> None:
    replicas = await asyncio.to_thread(stage.replicas)
    actors = await asyncio.to_thread(stage.state_actors)
    stage.signal(signal.SIGKILL, [replicas[0], *actors])
    await until(lambda: len(stage.replicas()) == len(replicas))


async def _kill_in_turn(stage: Stage) -> None:
    replicas = await asyncio.to_thread(stage.replicas)
    stage.signal(signal.SIGKILL, replicas[:1])
    await asyncio.sleep(2)
    await _kill_actor(stage)
    await asyncio.sleep(2)
    stage.signal(signal.SIGKILL, replicas[1:])
    await until(lambda: len(stage.replicas()) == len(replicas))


async def _pause_replica(stage: Stage) -> None:
    await _pause(stage, (await asyncio.to_thread(stage.replicas))[:1])


async def _pause_actor(stage: Stage) -> None:
    await _pause(stage, await asyncio.to_thread(stage.state_actors))


async def _pause(stage: Stage, processes: list[psutil.Process]) -> None:
    stage.signal(signal.SIGSTOP, processes)
    try:
        await asyncio.sleep(PAUSE_S)
    finally:
        stage.signal(signal.SIGCONT, processes)


async def _kill_controller(stage: Stage) -> None:
    stage.signal(signal.SIGKILL, await asyncio.to_thread(stage.controllers))
    await until(lambda: len(stage.controllers()) == 1)


async def _kill_store(stage: Stage) -> None:
    assert stage.redis is not None
    stage.note()
    stage.redis.kill()
    await asyncio.sleep(1)
    await asyncio.to_thread(stage.redis.start)


async def _scale(stage: Stage) -> None:
    for replicas in (3, 1):
        stage.note()
        await stage.deploy(replicas)


async def _roll_out(stage: Stage) -> None:
    for max_waiting in (999, 1000):
        stage.note()
        await stage.deploy(2, max_waiting=max_waiting)


async def _reshard(stage: Stage) -> None:
    for shards in (2, 1):
        stage.note()
        await stage.deploy(2, shards=shards)


async def _restart_ray(stage: Stage) -> None:
    stage.note()
    await asyncio.to_thread(stage.system.kill_everything)
    stage.note()
    await asyncio.to_thread(stage.system.instance.stop)
    await asyncio.to_thread(stage.system.instance.start)
    await asyncio.to_thread(stage.system.deploy)


_ALL = (
    Fault("none", "nothing happens", _nothing),
    Fault("replica", "kill -9 of one of two replicas", _kill_replica, may_cost=UNCOMMITTED),
    Fault("only-replica", "kill -9 of the only replica", _kill_replica, 1, UNCOMMITTED),
    Fault("actor", "kill -9 of the state actors", _kill_actor),
    Fault(
        "replica+actor",
        "kill -9 of one of two replicas and of the state actors at once",
        _kill_replica_and_actor,
        may_cost=UNSAVED,
    ),
    Fault(
        "one-by-one",
        "kill -9 of a replica, of the state actors, of the other replica, seconds apart",
        _kill_in_turn,
        may_cost=UNCOMMITTED,
    ),
    Fault(
        "replica-pause",
        f"SIGSTOP of one of two replicas for {PAUSE_S:.0f} s",
        _pause_replica,
        may_cost=UNCOMMITTED,
    ),
    Fault("actor-pause", f"SIGSTOP of the state actors for {PAUSE_S:.0f} s", _pause_actor),
    Fault("controller", "kill -9 of Serve's controller", _kill_controller),
    Fault("store", "kill -9 of the store, which is back after 1 s", _kill_store),
    Fault("scale", "from 1 replica to 3 and back", _scale, 1),
    Fault("rollout", "another code version on 2 replicas, and back", _roll_out),
    Fault("reshard", "from 1 state actor to 2 and back, by a redeploy", _reshard),
    Fault("ray", "kill -9 of all of Ray, which is started again", _restart_ray, 2, UNSAVED),
)
FAULTS = {fault.name: fault for fault in _ALL}
