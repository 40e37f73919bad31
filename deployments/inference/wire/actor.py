"""The stateful actor: the authority over hidden states as a Ray actor.

The actor is named, detached and restarted by Ray, not one of Serve's deployment-scoped actors:
those belong to one code version, so a rollout would have two authorities at once and start from
zeros, and a dead one waits for the controller's health check (10 s by default) where Ray restarts
this one at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable

import ray
from ray.exceptions import ActorDiedError, RayError
from ray.util import metrics

from deployments.inference.authority.authority import HiddenStateAuthority
from deployments.inference.authority.snapshots import NoSnapshots, StoreSnapshots
from deployments.inference.options import InferenceOptions
from deployments.inference.protocol import (
    Key,
)
from deployments.inference.wire.commit_channel import (
    ChannelAddress,
    CommitServer,
    decode_commit,
)
from deployments.ray_private import SERVE_NAMESPACE
from deployments.store import Store

logger = logging.getLogger(__name__)

SWEEP_PERIOD_S = 0.1
PROBE_TIMEOUT_S = 0.5

OpenStore = Callable[[], Store]


class HiddenStates(HiddenStateAuthority):
    """Keeps the hidden states of one shard; every method runs in the actor's event loop.

    Args:
        app: the application, whose states are its own.
        open_store: opens the store that snapshots go to; None keeps states in memory alone.
        shard: number of this shard and number of shards.
    """

    def __init__(
        self,
        app: str,
        options: InferenceOptions,
        open_store: OpenStore | None,
        shard: tuple[int, int],
    ) -> None:
        context = ray.get_runtime_context()
        snapshots = _open_snapshots(app, options, open_store, shard)
        super().__init__(
            options,
            snapshots=snapshots,
            is_alive=_replica_is_alive,
            restarted=context.was_current_actor_reconstructed,
        )
        self._commits = CommitServer(self)
        self._address: ChannelAddress | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._loops = [self._sweep_forever()]
        if isinstance(snapshots, StoreSnapshots):
            self._loops.append(snapshots.run(options.snapshot_period_s))
        self._n_states = metrics.Gauge("hidden_states", "Hidden states kept", tag_keys=("shard",))
        self._n_states.set_default_tags({"shard": str(shard[0])})

    async def _start(self) -> None:
        # A constructor of an actor cannot await; its first call can.
        await super()._start()
        for loop in self._loops:
            task = asyncio.create_task(loop)
            task.add_done_callback(_restart_on_death)
            self._running.add(task)  # the event loop itself holds tasks weakly
        try:
            self._address = await self._commits.start(ray.util.get_node_ip_address())
        except OSError as error:  # replicas then commit by actor calls
            logger.warning("No connections for commits can be taken: %s", error)

    async def commit_address(self) -> ChannelAddress | None:
        """Return where commits are taken, None when the actor cannot listen or has not started."""
        return self._address

    async def commit_message(self, payload: bytes) -> list[Key]:
        """Take the commit of a replica that cannot reach the address."""
        return await self.commit(*decode_commit(payload))

    async def _sweep_forever(self) -> None:
        while True:
            self.sweep()
            self._n_states.set(self.n_states)
            await asyncio.sleep(SWEEP_PERIOD_S)


def _restart_on_death(task: asyncio.Task[None]) -> None:
    """Restart the actor: the authority is broken without the loop, and learns the states anew."""
    if not task.cancelled():
        logger.critical("A background loop has died; restarting", exc_info=task.exception())
        os._exit(1)


def _open_snapshots(
    app: str, options: InferenceOptions, open_store: OpenStore | None, shard: tuple[int, int]
) -> StoreSnapshots | NoSnapshots:
    if open_store is None:
        return NoSnapshots()
    session = ray.get_runtime_context().get_session_name()
    return StoreSnapshots(
        open_store(),
        cluster=hashlib.blake2b(session.encode(), digest_size=16).digest(),
        restore=options.restore_after_restart,
        shard=shard,
        app=app,
    )


async def _replica_is_alive(actor_name: str) -> bool:
    """Ask Ray; a replica that is merely slow counts as alive, its lease will run out."""
    try:
        # in a thread: without the GCS, the look-up would stop every other call
        replica = await asyncio.to_thread(ray.get_actor, actor_name, SERVE_NAMESPACE)
        await asyncio.wait_for(replica.__ray_ready__.remote(), PROBE_TIMEOUT_S)
    except (ValueError, ActorDiedError):
        return False
    except (TimeoutError, RayError):  # RayError: one of a network in trouble tells of no death
        return True
    return True
