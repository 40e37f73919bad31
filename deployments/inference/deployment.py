"""The inference deployment: wires the service into a Serve replica."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import ray
from fastapi import FastAPI
from ray import serve
from ray.actor import ActorHandle

from deployments.feed.actor import start_publisher
from deployments.http.access_log import AccessLog
from deployments.http.bearer import BearerGuard
from deployments.http.fast_path import fast_path_protocol
from deployments.http.probes import Probes, store_check
from deployments.inference.api import create_app
from deployments.inference.change_of_network import check_network
from deployments.inference.metrics import InferenceMetrics
from deployments.inference.options import InferenceOptions
from deployments.inference.service import InferenceService
from deployments.inference.telemetry import InferenceReporter
from deployments.metrics.publisher import Publisher
from deployments.metrics.requests import RequestMetrics
from deployments.ray_private.calls_server import keep_calls_inside
from deployments.ray_private.http_server import install_protocol
from deployments.ray_private.serve import prepare_log, writes_json
from deployments.stateful.cluster_claim import claim_cluster
from deployments.stateful.garbage import look_for_garbage_seldom
from deployments.stateful.layout import Layout, Partition, agree_on_layout, table_of
from deployments.stateful.ray.actor import OpenStore, find_authority
from deployments.stateful.ray.client import RayAuthority
from deployments.stateful.replica.leases import StateLeases
from deployments.stateful.replica.shards import ShardedLeases
from deployments.store import Store, StoreUnavailable
from deployments.tracing.options import TracingOptions
from deployments.tracing.replica import end_traces, trace_replica
from models.junctions import SHIPPED
from models.networks.network import Network
from models.policy.form import HIDDEN_DIM

_STORE_PATIENCE_S = 60.0
_STORE_PAUSE_S = 0.5


@serve.deployment(name="Inference")
@serve.ingress()
class Inference:
    """One replica: owns the hidden states it steps, serves the policy over HTTP.

    Args:
        agent_path: policy file, unless ``user_config`` names another.
        open_store: opens the store in which the layout, resets and copies of hidden states are.
        access_log_share: of the requests that get a line in the log, from 0 to 1.
        open_tokens: reads, where they are used, the tokens of which clients must send one; None
            asks for none.
        network: whose junctions are served.
    """

    async def __init__(  # type: ignore[misc]
        self,
        options: InferenceOptions,
        agent_path: str,
        open_store: OpenStore,
        access_log_share: float = 0.0,
        tracing: TracingOptions | None = None,
        open_tokens: Callable[[], Sequence[str]] | None = None,
        network: Network = SHIPPED,
    ) -> None:
        prepare_log()
        keep_calls_inside()
        look_for_garbage_seldom()
        trace_replica(tracing)
        self._options = options
        self._guard = open_tokens and BearerGuard(open_tokens())
        self._store = open_store()
        leases = await _connect(options, network, open_store, self._store, tracing)
        self._leases = ShardedLeases(leases)
        self._service = InferenceService(self._leases, options, network)
        await asyncio.gather(self._leases.start(), self._service.policies.start(agent_path))
        self._metrics = Publisher(InferenceMetrics(self._service).publish)
        checks = {**self._service.checks(), "store": store_check(self._store)}
        self._probes = Probes(self.check_health, checks)
        self._access_log = AccessLog(access_log_share)

    def __serve_build_asgi_app__(self) -> FastAPI:
        app = create_app(
            self._service,
            self._options,
            self._probes,
            self._access_log,
            self._guard,
            self._service.network,
        )
        self._metrics.add(RequestMetrics(app.state.request_times).publish)
        self._feed = start_publisher(InferenceReporter(self._service, app.state.request_times))
        install_protocol(fast_path_protocol(app))
        return app

    async def reconfigure(self, user_config: dict[str, Any]) -> None:
        """Swap the policies; a file that cannot be served leaves the present one in place."""
        await self._service.policies.reconfigure(user_config)

    def check_health(self) -> None:
        self._leases.check_health()
        self._metrics.check_health()
        self._feed.check_health()

    async def __del__(self) -> None:
        self._metrics.stop()
        self._feed.stop()
        await self._service.close()
        await self._store.close()
        await end_traces()


async def _connect(
    options: InferenceOptions,
    network: Network,
    open_store: OpenStore,
    store: Store,
    tracing: TracingOptions | None,
) -> list[StateLeases]:
    app = serve.get_replica_context().app_name
    replica = ray.get_runtime_context().get_actor_name() or ""
    layout = await _enter(store, table_of(app), options, network)

    def connect(partition: Partition) -> StateLeases:
        authority = RayAuthority(lambda: _find(app, options, open_store, partition, tracing))
        return StateLeases(authority, replica, HIDDEN_DIM, options, partition.generation)

    return [connect(partition) for partition in layout.partitions]


async def _enter(store: Store, table: str, options: InferenceOptions, network: Network) -> Layout:
    """Agree on the layout of this cluster's states, waiting for a store that does not serve yet."""
    context = ray.get_runtime_context()
    session, restores = context.get_session_name(), options.restore_after_restart
    async with asyncio.timeout(_STORE_PATIENCE_S):
        while True:
            try:
                await claim_cluster(store, table, context.gcs_address)
                await check_network(
                    store,
                    table,
                    network,
                    session,
                    all_starts=restores,
                    copied_within_s=options.snapshot_period_s + _STORE_PAUSE_S,
                )
                return await agree_on_layout(store, table, options, network)
            except StoreUnavailable:  # which the store tells the log
                await asyncio.sleep(_STORE_PAUSE_S)


def _find(
    app: str,
    options: InferenceOptions,
    open_store: OpenStore,
    partition: Partition,
    tracing: TracingOptions | None,
) -> ActorHandle:
    actor = find_authority(app, options, open_store, partition, writes_json())
    # an actor that is there already has the options of its creator
    actor.configure.remote(options, tracing)
    return actor
