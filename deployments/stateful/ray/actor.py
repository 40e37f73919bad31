"""The state actor: an authority as a Ray actor.

The actor is named, detached and restarted by Ray. Serve's deployment-scoped actors belong to one
code version: a rollout would have two authorities at once and begin from initial states, and a dead
one waits for the controller's health check (10 s by default), where Ray restarts this one at once.
The actor belongs to a node. If the node dies, so does the actor, and the replicas create another.
It outlives a rollout, and ends when no replica has used it for a while, as after the removal of its
application. The store has its states for the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import ray
from ray.actor import ActorHandle
from ray.util import metrics
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from deployments.aio import PeriodicTask
from deployments.log import write_to
from deployments.stateful.authority.authority import StateAuthority
from deployments.stateful.authority.fenced_writer import PartitionRetiredError
from deployments.stateful.layout import Partition, table_of
from deployments.stateful.options import StateOptions
from deployments.stateful.protocol import Hello, Key, Mark, OpenedSession, StateError
from deployments.stateful.ray.channel import Address
from deployments.stateful.ray.cluster import RayCluster
from deployments.stateful.ray.commit_channel import CommitServer
from deployments.stateful.ray.placement import (
    choose_node,
    is_misplaced,
    read_places,
    serving_nodes,
)
from deployments.store import Store
from deployments.tracing import process
from deployments.tracing.process import TracingOptions

logger = logging.getLogger("ray.serve")

NAMESPACE = "greenwave"
_LAST_RESPONSES_S = 0.5
_PLACE_PERIOD_S = 5.0
_MISPLACED = 2  # times in a row: a node that has just joined may leave again
_UNUSED_LEASES = 30  # replicas that are replaced or restarted are back sooner
_END_S = 5.0


class OpenStore(Protocol):
    def __call__(self) -> Store: ...


@dataclass(frozen=True)
class ActorConfig:
    """How the state actors of one application are created.

    Attributes:
        app: the application's name.
        open_store: opens the store.
        state_bytes: size of one state.
        json_lines: whether their logs are JSON.
    """

    app: str
    options: StateOptions
    open_store: OpenStore
    state_bytes: int
    json_lines: bool = False

    def name(self, partition: Partition) -> str:
        return f"{self._siblings(partition)}{partition.shard}"

    def _siblings(self, partition: Partition) -> str:
        return f"hidden_states:{self.app}:{partition.generation}/"

    def find(self, partition: Partition) -> ActorHandle:
        """Return the named actor of a partition, created by the first caller."""
        name = self.name(partition)
        try:
            found: ActorHandle = ray.get_actor(name, NAMESPACE)
            return found
        except ValueError:
            pass
        places = read_places(self._siblings(partition))
        node = choose_node(partition.shard, serving_nodes(), places.values())
        actor: ActorHandle = (
            ray.remote(StateActor)
            .options(
                name=name,
                namespace=NAMESPACE,
                lifetime="detached",
                get_if_exists=True,
                max_restarts=-1,
                max_concurrency=10_000,  # long polls and checkouts wait inside
                num_cpus=0,
                # Ray ignores a soft affinity for an actor that needs no resources.
                scheduling_strategy=node and NodeAffinitySchedulingStrategy(node, soft=False),
            )
            .remote(self, partition)
        )
        return actor

    def is_misplaced(self, partition: Partition) -> bool:
        places = read_places(self._siblings(partition))
        return is_misplaced(self.name(partition), places, serving_nodes())


def collect_garbage_seldom() -> None:
    """Let many more objects be created than by default before Python looks for garbage.

    A hundred thousand states are many objects and no garbage. Traversing them again and again
    would double the time of a restart, in the state actor and in the replicas that claim.
    """
    gc.set_threshold(100_000, 50, 100)


def serve_logs_folder() -> Path:
    """Return the folder of Serve's logs on this node."""
    context = ray.get_runtime_context()
    return Path(context.get_temp_dir(), context.get_session_name(), "logs", "serve")


class StateActor(StateAuthority):
    """Keeps the states of one partition; every method runs in the actor's event loop."""

    def __init__(self, config: ActorConfig, partition: Partition) -> None:
        collect_garbage_seldom()
        app, shard = config.app, str(partition.shard)
        self._name = f"hidden_states_{app}_{partition.generation}_{shard}"
        tags = {"application": app, "component_name": "hidden_states", "shard": shard}
        log_file = serve_logs_folder() / f"{self._name}.log"
        write_to(log_file, self._name, config.json_lines, **tags)
        self._title = f"StateActor({app}, layout {partition.generation}, shard {shard})"
        super().__init__(
            config.options,
            config.open_store(),
            table_of(app),
            partition,
            RayCluster(app, config.find),
            config.state_bytes,
            on_end=_restart,
        )
        self._commits = CommitServer(self)
        self._address: Address | None = None
        self._metrics = PeriodicTask("The metrics", ActorMetrics(self, app, shard).publish)
        # Reading many snapshots takes about as long as replicas take to find this process.
        self._starting_early = asyncio.ensure_future(self._start_early())
        self._leaving = asyncio.ensure_future(self._leave_when_due(config, partition))

    def configure(self, options: StateOptions, tracing: TracingOptions | None = None) -> None:
        super().configure(options)
        process.start(tracing, "hidden-states", self._name)

    def __repr__(self) -> str:
        """Return the name of the actor in Ray's dashboard."""
        return self._title

    async def _start_early(self) -> None:
        with contextlib.suppress(StateError):  # the next caller tries again
            await self.start()

    async def start(self) -> None:
        try:
            await super().start()
        except PartitionRetiredError:
            _leave()
            raise

    async def _start(self) -> None:
        await super()._start()
        if self._address is None:
            self._address = await self._commits.start(ray.util.get_node_ip_address())

    async def give_up(self) -> None:
        """Retire the partition. Actors of other versions call this method by its name."""
        await self.retire()
        _leave()

    async def _leave_when_due(self, config: ActorConfig, partition: Partition) -> None:
        """Step down when another node has fewer state actors, or when no replica uses this one.

        Without replicas, the next term waits for the first of them.
        """
        clock = asyncio.get_running_loop().time
        n_misplaced, used_at = 0, clock()
        while True:
            await asyncio.sleep(_PLACE_PERIOD_S)
            if self.is_used:
                used_at = clock()
            try:
                misplaced = await asyncio.to_thread(config.is_misplaced, partition)
                n_misplaced = n_misplaced + 1 if misplaced else 0
                unused = clock() - used_at > _UNUSED_LEASES * config.options.lease_s
                if unused or n_misplaced >= _MISPLACED:
                    await self.step_down()
                    why = "no replica uses it" if unused else "another one has fewer of them"
                    logger.info("The state actor leaves its node: %s", why)
                    _leave(last_responses_s=0)
            except Exception as error:  # whatever the GCS client raises, or no store
                n_misplaced, used_at = 0, clock()
                logger.warning("The state actor stays: %r", error)

    # Ray would keep a record of each poll, two a second for every replica.
    @ray.method(enable_task_events=False)  # type: ignore[untyped-decorator]
    async def poll(self, session: int) -> tuple[list[Key], Mark]:
        return await super().poll(session)

    async def connect(self, hello: Hello) -> tuple[OpenedSession, Address]:
        """Open a session, and return where its commits are accepted."""
        opened = await self.open_session(hello)
        assert self._address is not None, "a started authority listens"
        return opened, self._address


class ActorMetrics:
    """Ray metrics of one state actor."""

    def __init__(self, authority: StateAuthority, app: str, shard: str) -> None:
        self._authority = authority
        self._tags = {"application": app, "shard": shard}
        self._states = self._gauge("hidden_states", "Hidden states kept")
        self._allowed = self._gauge("hidden_states_allowed", "Maximum number of hidden states")
        self._term = self._gauge(
            "hidden_states_life", "Term of the state actor: one more than its recoveries"
        )
        self._recovery_ms = self._gauge(
            "hidden_states_recovery_ms", "From the start of this term until it acted"
        )

    def _gauge(self, name: str, description: str) -> metrics.Gauge:
        return metrics.Gauge(name, description, tag_keys=tuple(self._tags))

    def publish(self) -> None:
        """Publish the present values."""
        self._states.set(self._authority.n_states, self._tags)
        self._allowed.set(self._authority.max_states, self._tags)
        self._term.set(self._authority.term, self._tags)
        self._recovery_ms.set(self._authority.recovery_s * 1000, self._tags)


def _restart(error: BaseException) -> None:
    """End this process: a later term took over, or a background loop has failed."""
    logger.critical("The state actor ends, and Ray restarts it", exc_info=error)
    os._exit(1)


def _leave(last_responses_s: float = _LAST_RESPONSES_S) -> None:
    """End permanently: the partition is retired, or the next actor will be on another node."""
    me = ray.get_runtime_context().current_actor
    loop = asyncio.get_running_loop()
    loop.call_later(last_responses_s, lambda: ray.kill(me, no_restart=True))
    loop.call_later(last_responses_s + _END_S, os._exit, 1)  # if Ray does not do it, restart
