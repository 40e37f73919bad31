"""The stateful actor: the authority over hidden states as a Ray actor.

The actor is named, detached and restarted by Ray, not one of Serve's deployment-scoped actors:
those belong to one code version, so a rollout would have two authorities at once and start from
zeros, and a dead one waits for the controller's health check (10 s by default) where Ray restarts
this one at once. It belongs to a node; with that it dies, and the replicas create another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable

import ray
from ray.actor import ActorHandle
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from deployments.channel import Address
from deployments.inference.options import InferenceOptions
from deployments.log import write_to
from deployments.metrics.publisher import Publisher
from deployments.ray_private.core import logs_folder
from deployments.stateful.authority.authority import HiddenStateAuthority
from deployments.stateful.authority.fenced_writer import PartitionRetiredError
from deployments.stateful.garbage import look_for_garbage_seldom
from deployments.stateful.layout import Partition, table_of
from deployments.stateful.protocol import HiddenStateError, Key
from deployments.stateful.ray.cluster import RayCluster
from deployments.stateful.ray.commit_channel import CommitServer, take_commit
from deployments.stateful.ray.metrics import AuthorityMetrics
from deployments.stateful.ray.placement import (
    choose_node,
    ought_to_move,
    read_places,
    serving_nodes,
)
from deployments.store import Store
from deployments.tracing import process
from deployments.tracing.options import TracingOptions

logger = logging.getLogger("ray.serve")

NAMESPACE = "greenwave"
_LAST_WORDS_S = 0.5  # for answers that are still on their way
_PLACE_PERIOD_S = 5.0
_MISPLACED = 2  # times in a row: a node that has just come may go again
_END_S = 5.0

OpenStore = Callable[[], Store]


class HiddenStates(HiddenStateAuthority):
    """Keeps the hidden states of one partition; every method runs in the actor's event loop.

    Args:
        app: the application, whose states are its own.
        open_store: opens the store.
        json_lines: whether its log is JSON, as that of the replicas was that created it.
    """

    def __init__(
        self,
        app: str,
        options: InferenceOptions,
        open_store: OpenStore,
        partition: Partition,
        json_lines: bool = False,
    ) -> None:
        look_for_garbage_seldom()
        name = f"hidden_states_{app}_{partition.generation}_{partition.shard}"
        self._name = name
        place = {
            "application": app,
            "component_name": "hidden_states",
            "shard": str(partition.shard),
        }
        write_to(logs_folder() / "serve" / f"{name}.log", name, json_lines, **place)
        self._title = f"HiddenStates({app}, layout {partition.generation}, shard {partition.shard})"
        cluster = RayCluster(
            lambda other: find_authority(app, options, open_store, other, json_lines)
        )
        super().__init__(options, open_store(), table_of(app), partition, cluster, on_end=_restart)
        self._commits = CommitServer(self)
        self._address: Address | None = None
        self._metrics = Publisher(AuthorityMetrics(self, app, partition.shard).publish)
        # Reading many copies takes about as long as it takes replicas to find this process.
        self._starting_early = asyncio.ensure_future(self._start_early())
        self._moving = asyncio.ensure_future(self._move_when_misplaced(app, partition))

    def configure(self, options: InferenceOptions, tracing: TracingOptions | None = None) -> None:
        super().configure(options)
        process.start(tracing, "hidden-states", self._name)

    def __repr__(self) -> str:
        """Name the actor as Ray's dashboard shall show it."""
        return self._title

    async def _start_early(self) -> None:
        with contextlib.suppress(HiddenStateError):  # whoever calls tries again
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
            try:
                self._address = await self._commits.start(ray.util.get_node_ip_address())
            except OSError as error:  # replicas then commit by actor calls
                logger.warning("No connections for commits can be taken: %s", error)

    async def give_up(self) -> None:
        await super().give_up()
        _leave()

    async def _move_when_misplaced(self, app: str, partition: Partition) -> None:
        """Make room for a life on another node, where nodes have come or gone."""
        name = _name(app, partition)
        n_misplaced = 0
        while True:
            await asyncio.sleep(_PLACE_PERIOD_S)
            try:
                misplaced = await asyncio.to_thread(_is_misplaced, name)
                n_misplaced = n_misplaced + 1 if misplaced else 0
                if n_misplaced >= _MISPLACED:
                    await self.step_down()
                    logger.info("The state actor moves to a node that has fewer of them")
                    _leave(last_words_s=0)
            except Exception as error:  # whatever the GCS client raises, or the store is away
                n_misplaced = 0
                logger.warning("The state actor stays where it is: %r", error)

    # Ray would keep a record of each, two a second of every replica, and crowd out all others.
    @ray.method(enable_task_events=False)  # type: ignore[untyped-decorator]
    async def listen(self, session: int) -> list[Key]:
        return await super().listen(session)

    async def commit_address(self) -> Address | None:
        """Return where commits are taken, None when the actor cannot listen or has not started."""
        return self._address

    async def commit_message(self, payload: bytes) -> list[Key]:
        """Take the commit of a replica that cannot reach the address."""
        return await take_commit(self, payload)


def find_authority(
    app: str,
    options: InferenceOptions,
    open_store: OpenStore,
    partition: Partition,
    json_lines: bool = False,
) -> ActorHandle:
    """Return the named actor of a partition, created by whoever comes first."""
    name = _name(app, partition)
    try:
        found: ActorHandle = ray.get_actor(name, NAMESPACE)
        return found
    except ValueError:
        pass
    actor: ActorHandle = (
        ray.remote(HiddenStates)
        .options(
            name=name,
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            max_concurrency=10_000,  # long-polls and checkouts wait inside
            num_cpus=0,
            scheduling_strategy=_place(name, partition),
        )
        .remote(app, options, open_store, partition, json_lines)
    )
    return actor


def _name(app: str, partition: Partition) -> str:
    return f"hidden_states:{app}:{partition.generation}/{partition.shard}"


def _siblings(name: str) -> str:
    return name[: name.rindex("/") + 1]


def _place(name: str, partition: Partition) -> NodeAffinitySchedulingStrategy | None:
    places = read_places(_siblings(name))
    node = choose_node(partition.shard, serving_nodes(), places.values())
    # A soft affinity is nothing to Ray for an actor that needs no resources.
    return NodeAffinitySchedulingStrategy(node, soft=False) if node else None


def _is_misplaced(name: str) -> bool:
    return ought_to_move(name, read_places(_siblings(name)), serving_nodes())


def _restart(error: BaseException) -> None:
    """End this life: it was succeeded, or a loop has died without which the authority is broken."""
    logger.critical("The state actor ends, and Ray restarts it", exc_info=error)
    os._exit(1)


def _leave(last_words_s: float = _LAST_WORDS_S) -> None:
    """End for good: nobody needs this partition any more, or the next actor will sit elsewhere."""
    me = ray.get_runtime_context().current_actor
    loop = asyncio.get_running_loop()
    loop.call_later(last_words_s, lambda: ray.kill(me, no_restart=True))
    loop.call_later(last_words_s + _END_S, os._exit, 1)  # Ray does not hear it: a restart will do
