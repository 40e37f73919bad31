"""The state actor: the home of a shard as a Ray actor.

The actor is named, detached and restarted by Ray. Serve's deployment-scoped actors belong to one
code version: a rollout would have two homes at once, and a dead one waits for the controller's
health check (10 s by default), where Ray restarts this one at once. The actor belongs to a node. If
the node dies, so does the actor, and the replicas create another. It outlives a rollout, and ends
when no replica has used it for a while, as after the removal of its application. The store has its
states for the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import ray
from ray.actor import ActorHandle
from ray.util import metrics
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from deployments.aio import PeriodicTask, SingleFlight
from deployments.log import Outages, write_to
from deployments.stateful.channel import Address, listen
from deployments.stateful.cluster import (
    RayCluster,
    choose_node,
    is_misplaced,
    read_places,
    serving_nodes,
)
from deployments.stateful.files import OwnedFiles, base_folder
from deployments.stateful.home import Home
from deployments.stateful.options import StateOptions
from deployments.stateful.remote import TableServer
from deployments.stateful.row import RowForm
from deployments.stateful.shards import ForeignStatesError, Layout, OtherLayoutError, table_of
from deployments.stateful.table import full_size
from deployments.stateful.watchdog import Watchdog
from deployments.store import Store

logger = logging.getLogger("ray.serve")

_LAST_RESPONSES_S = 0.5
_PAUSE_S = 0.5
_PLACE_PERIOD_S = 5.0
_MISPLACED = 2  # times in a row: a node that has just joined may leave again
_UNUSED_S = 60.0  # replicas that are replaced or restarted are back sooner
_END_S = 5.0

OpenStore = Callable[[], Store]


class Description(NamedTuple):
    """What a home says of its table.

    Attributes:
        folder, nonce: of its files, which the caller's machine may not have.
        address: of the home.
    """

    folder: str
    nonce: str
    address: Address


@dataclass(frozen=True)
class ActorConfig:
    """How the state actors of one application are created.

    Attributes:
        app: the application's name.
        store: identity of the store.
        open_store: opens the store.
        json_lines: whether their logs are JSON.
    """

    app: str
    options: StateOptions
    layout: Layout
    form: RowForm
    store: str
    open_store: OpenStore
    json_lines: bool = False

    @property
    def names(self) -> str:
        """What the names of the actors begin with."""
        return f"hidden_states:{self.app}/"

    @property
    def namespace(self) -> str:
        """The actors' in Ray: those of another layout or store are others."""
        of = self.layout.pack() + self.store.encode()
        return f"greenwave-{hashlib.blake2b(of, digest_size=8).hexdigest()}"

    def name(self, shard: int) -> str:
        return f"{self.names}{shard}"

    def find(self, shard: int) -> ActorHandle | None:
        """Return the actor of a shard, if there is one."""
        try:
            found: ActorHandle = ray.get_actor(self.name(shard), self.namespace)
        except ValueError:
            return None
        return found

    def find_or_create(self, shard: int) -> ActorHandle:
        """Return the actor of a shard, created by the first caller."""
        found = self.find(shard)
        if found is not None:
            return found
        node = choose_node(shard, serving_nodes(), read_places(self.names).values())
        actor: ActorHandle = (
            ray.remote(StateActor)
            .options(
                name=self.name(shard),
                namespace=self.namespace,
                lifetime="detached",
                get_if_exists=True,
                max_restarts=-1,
                num_cpus=0,
                # Ray ignores a soft affinity for an actor that needs no resources.
                scheduling_strategy=node and NodeAffinitySchedulingStrategy(node, soft=False),
            )
            .remote(self, shard)
        )
        return actor


class StateActor:
    """The home of one shard; every method runs in the actor's event loop."""

    def __init__(self, config: ActorConfig, shard: int) -> None:
        app, self._config, self._shard = config.app, config, shard
        log_name = f"hidden_states_{app}_{shard}"
        tags = {"application": app, "component_name": "hidden_states", "shard": str(shard)}
        log_file = serve_logs_folder() / f"{log_name}.log"
        write_to(log_file, log_name, config.json_lines, **tags)
        self._options = config.options
        self._store = config.open_store()
        self._cluster = RayCluster()
        self._folder = Path()
        self._home: Home | None = None
        self._server: TableServer | None = None
        self._watchdog: Watchdog | None = None
        self._description: Description | None = None
        self._starting = SingleFlight(self._start)
        self._stepping_down = SingleFlight(self._step_down)
        self._metrics = PeriodicTask("The metrics", ActorMetrics(self, app, str(shard)).publish)
        # Loading many copies takes about as long as replicas take to find this process.
        self._tasks = [asyncio.ensure_future(self._start_early())]
        self._tasks += [asyncio.ensure_future(self._leave_when_due())]

    def __repr__(self) -> str:
        """Return the name of the actor in Ray's dashboard."""
        return f"StateActor({self._config.app}, shard {self._shard})"

    @property
    def home(self) -> Home | None:
        """The home, once it acts."""
        return self._home if self._home is not None and self._home.ready else None

    async def describe(self, options: StateOptions) -> Description:
        """Adopt the options of a replica, and return where the table is.

        Raises:
            OtherLayoutError: never again.
            StateError, StoreUnavailable: not now.
        """
        self._options = options
        if self._home is not None:
            await self._home.configure(options)
        await self._starting.result()
        assert self._description is not None, "it has started"
        return self._description

    async def give_up(self, leaves: bool) -> None:
        """Check that the shard has no states, and perhaps leave it.

        Raises:
            ForeignStatesError: it has some.
            StoreUnavailable: the store does not answer.
        """
        if self.home is not None and (n_states := self.home.table.counts()[0]):
            raise ForeignStatesError(f"{n_states} of these are kept")
        if leaves:
            await self._stepping_down.result()
            _leave()

    async def _start(self) -> None:
        config = self._config
        if self._home is None:
            at = self._store, table_of(config.app), config.layout, self._shard
            files = await asyncio.to_thread(self._open_files)
            self._home = Home(files, *at, self._options, self._cluster, _restart)
        if not self._home.ready:
            await self._home.start()
        if self._description is None:
            files, home = self._home.files, self._home
            self._server = TableServer(home.table, home.copied)
            address, _ = await listen(ray.util.get_node_ip_address(), self._server.serve)
            self._watchdog = Watchdog(home.table, self._folder / "table-lock")
            self._description = Description(str(self._folder), files.form.nonce, address)
            logger.info("Term %d begins, with %d hidden states", home.term, home.table.counts()[0])

    def _open_files(self) -> OwnedFiles:
        options, config = self._options, self._config
        base = base_folder(full_size(config.form, options.max_states))
        identity = f"{self._store.identity}\0{config.app}".encode()
        folder = base / hashlib.blake2b(identity, digest_size=8).hexdigest()
        self._folder = folder / f"{self._shard}-of-{config.layout.shards}"
        at_most = options.max_states_per_shard
        return OwnedFiles(self._folder, config.form, config.layout.tag, at_most)

    async def _start_early(self) -> None:
        outages = Outages("The home of the hidden states")
        while self.home is None:
            try:
                await self._starting.result()
                outages.served()
            except OtherLayoutError:
                _leave()
                return
            except Exception as error:  # a defect, too; Ray would restart the actor at once
                outages.failed(error)
                await asyncio.sleep(_PAUSE_S)

    async def _step_down(self) -> None:
        home = self.home
        if home is not None:
            await home.leave()
            if self._watchdog is not None:
                await asyncio.to_thread(self._watchdog.stop)
            with contextlib.suppress(OSError):  # the store has all; the next home goes on with it
                await asyncio.to_thread(home.files.delete)

    async def _leave_when_due(self) -> None:
        """Leave when another node has fewer state actors, or when no replica uses this one."""
        clock, name = asyncio.get_running_loop().time, self._config.name(self._shard)
        n_misplaced, used_at = 0, clock()
        while True:
            await asyncio.sleep(_PLACE_PERIOD_S)
            if self._server is not None and self._server.connections:
                used_at = clock()
            try:
                places = await asyncio.to_thread(read_places, self._config.names)
                misplaced = is_misplaced(name, places, await asyncio.to_thread(serving_nodes))
                n_misplaced = n_misplaced + 1 if misplaced else 0
                unused = clock() - used_at > _UNUSED_S
                if unused or n_misplaced >= _MISPLACED:
                    await self._stepping_down.result()
                    why = "no replica uses it" if unused else "another one has fewer of them"
                    logger.info("The state actor leaves its node: %s", why)
                    _leave(last_responses_s=0)
            except Exception as error:  # whatever the GCS client raises, or no store
                n_misplaced, used_at = 0, clock()
                logger.warning("The state actor stays: %r", error)


class ActorMetrics:
    """Ray metrics of one state actor."""

    def __init__(self, actor: StateActor, app: str, shard: str) -> None:
        self._actor = actor
        self._tags = {"application": app, "shard": shard}
        descriptions = {
            "hidden_states": "Hidden states kept",
            "hidden_states_allowed": "Maximum number of hidden states",
            "hidden_states_life": "Term of the state actor: one more than its recoveries",
            "hidden_states_copy_lag_ms": "Age of the hidden states' copies in the store",
        }
        keys = tuple(self._tags)
        self._gauges = [metrics.Gauge(*each, tag_keys=keys) for each in descriptions.items()]

    def publish(self) -> None:
        """Publish the present values."""
        home = self._actor.home
        if home is not None:
            values = (*home.table.counts(), home.term, home.copy_lag_s * 1000)
            for gauge, value in zip(self._gauges, values, strict=True):
                gauge.set(value, self._tags)


def serve_logs_folder() -> Path:
    """Return the folder of Serve's logs on this node."""
    context = ray.get_runtime_context()
    return Path(context.get_temp_dir(), context.get_session_name(), "logs", "serve")


def _restart(error: BaseException) -> None:
    """End this process: a later term took over, or a background loop has failed."""
    logger.critical("The state actor ends, and Ray restarts it", exc_info=error)
    os._exit(1)


def _leave(last_responses_s: float = _LAST_RESPONSES_S) -> None:
    """End permanently: no replica needs this home, or the next one will be on another node."""
    me = ray.get_runtime_context().current_actor
    loop = asyncio.get_running_loop()
    loop.call_later(last_responses_s, lambda: ray.kill(me, no_restart=True))
    loop.call_later(last_responses_s + _END_S, os._exit, 1)  # if Ray does not do it, restart
