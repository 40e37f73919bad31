"""The inference deployment: wires the service into a Serve replica."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import ray
from fastapi import FastAPI
from ray import serve
from ray.actor import ActorHandle

from deployments.inference.api import create_app
from deployments.inference.layout import Layout, Seat, agree_on_layout, table_of
from deployments.inference.metrics import InferenceMetrics
from deployments.inference.occupancy import occupy
from deployments.inference.options import InferenceOptions
from deployments.inference.replica.leases import StateLeases
from deployments.inference.replica.shards import ShardedLeases
from deployments.inference.service import InferenceService
from deployments.inference.wire.actor import OpenStore, find_authority
from deployments.inference.wire.client import RayAuthority
from deployments.metrics.publisher import Publisher
from deployments.ray_private.serve import prepare_log
from deployments.store import Store, StoreUnavailable
from models.policy.form import HIDDEN_DIM

logger = logging.getLogger("ray.serve")

_STORE_PATIENCE_S = 60.0
_STORE_PAUSE_S = 0.5


@serve.deployment(name="Inference")
@serve.ingress()
class Inference:
    """One replica: owns the hidden states it steps, serves the policy over HTTP.

    Args:
        agent_path: policy file, unless ``user_config`` names another.
        open_store: opens the store in which the layout, resets and copies of hidden states are.
    """

    async def __init__(  # type: ignore[misc]
        self, options: InferenceOptions, agent_path: str, open_store: OpenStore
    ) -> None:
        prepare_log()
        self._options = options
        self._leases = ShardedLeases(await _connect(options, open_store))
        self._service = InferenceService(self._leases, options)
        await asyncio.gather(self._leases.start(), self._service.policies.start(agent_path))
        self._metrics = Publisher(InferenceMetrics(self._service).publish)

    def __serve_build_asgi_app__(self) -> FastAPI:
        return create_app(self._service, self._options)

    async def reconfigure(self, user_config: dict[str, Any]) -> None:
        """Swap the policies; a file that cannot be served leaves the present one in place."""
        await self._service.policies.reconfigure(user_config)

    def check_health(self) -> None:
        self._leases.check_health()
        self._metrics.check_health()

    async def __del__(self) -> None:
        self._metrics.stop()
        await self._service.close()


async def _connect(options: InferenceOptions, open_store: OpenStore) -> list[StateLeases]:
    app = serve.get_replica_context().app_name
    replica = ray.get_runtime_context().get_actor_name() or ""
    layout = await _enter(open_store(), table_of(app), options)

    def connect(seat: Seat) -> StateLeases:
        authority = RayAuthority(lambda: _find(app, options, open_store, seat))
        return StateLeases(authority, replica, HIDDEN_DIM, options, seat.generation)

    return [connect(seat) for seat in layout.seats]


async def _enter(store: Store, table: str, options: InferenceOptions) -> Layout:
    """Agree on the layout of this cluster's states, waiting for a store that does not serve yet."""
    cluster = ray.get_runtime_context().gcs_address
    try:
        async with asyncio.timeout(_STORE_PATIENCE_S):
            while True:
                try:
                    await occupy(store, table, cluster)
                    return await agree_on_layout(store, table, options)
                except StoreUnavailable as error:
                    logger.warning("Waiting for the store: %s", error)
                    await asyncio.sleep(_STORE_PAUSE_S)
    finally:
        await store.close()


def _find(app: str, options: InferenceOptions, open_store: OpenStore, seat: Seat) -> ActorHandle:
    actor = find_authority(app, options, open_store, seat)
    actor.configure.remote(options)  # an actor that is there already has those of its creator
    return actor
