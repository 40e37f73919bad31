"""The inference deployment: wires the service into a Serve replica."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI
from ray import serve

from deployments.feed.actor import start_publisher
from deployments.http.access_log import AccessLog
from deployments.http.fast_path import fast_path_protocol
from deployments.http.probes import Probes, store_check
from deployments.http.request import BearerGuard
from deployments.inference.api import create_app
from deployments.inference.metrics import InferenceMetrics
from deployments.inference.options import InferenceOptions
from deployments.inference.policy_model import initial_state
from deployments.inference.service import InferenceReporter, InferenceService
from deployments.metrics.exported import RequestMetrics
from deployments.metrics.publisher import Publisher
from deployments.ray_private.http_server import install_protocol
from deployments.ray_private.serve import keep_calls_inside, prepare_log
from deployments.stateful.admission import ForeignStatesError
from deployments.stateful.ray.actor import OpenStore
from deployments.stateful.ray.client import connect_engine
from deployments.tracing.process import TracingOptions
from deployments.tracing.replica import end_traces, trace_replica
from models.junctions import SHIPPED
from models.networks.network import Network


class AnotherNetworkError(Exception):
    """Hidden states are kept that belong to another network."""

    def __init__(self, network: Network, error: ForeignStatesError) -> None:
        super().__init__(
            f"The network {network.name} has other junctions, phases or lanes than the one that"
            f" the hidden states of this application belong to, and {error.found}. Serve the"
            " network file that they belong to and reset its runs, or give the application another"
            " name."
        )


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
        trace_replica(tracing)
        self._options = options
        self._guard = open_tokens and BearerGuard(open_tokens())
        self._store = open_store()
        try:
            self._engine = await connect_engine(
                options, initial_state, network.digest, open_store, self._store, tracing
            )
        except ForeignStatesError as error:
            raise AnotherNetworkError(network, error) from error
        self._service = InferenceService(self._engine, network)
        await asyncio.gather(self._engine.start(), self._service.policies.start(agent_path))
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
        times = app.state.request_times
        self._metrics.add(RequestMetrics(times).publish)
        self._feed = start_publisher(
            InferenceReporter(self._service, times.of("POST", "/predict_action"))
        )
        install_protocol(fast_path_protocol(app))
        return app

    async def reconfigure(self, user_config: dict[str, Any]) -> None:
        """Swap the policies; a file that cannot be served leaves the present one in place."""
        await self._service.policies.reconfigure(user_config)

    def check_health(self) -> None:
        self._engine.check_health()
        self._metrics.check_health()
        self._feed.check_health()

    async def __del__(self) -> None:
        self._metrics.stop()
        self._feed.stop()
        await self._service.close()
        await self._store.close()
        await end_traces()
