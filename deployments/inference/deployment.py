"""The inference deployment: wires the service into a Serve replica."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from fastapi import FastAPI
from ray import serve

from deployments.http.probes import Check, store_check
from deployments.http.request import BearerGuard
from deployments.inference.api import create_app
from deployments.inference.metrics import InferenceMetrics
from deployments.inference.options import InferenceOptions
from deployments.inference.policy_model import diagnoses_of, output_form, state_width
from deployments.inference.service import InferenceReporter, InferenceService
from deployments.ray_private.haproxy_front import missing
from deployments.ray_private.serve import read_front_configuration
from deployments.replica import Observability, ReplicaBase
from deployments.stateful import Engine
from deployments.stateful.shards import ForeignStatesError
from deployments.store import Store
from models.networks.network import Network
from models.networks.shipped import SHIPPED


class AnotherNetworkError(Exception):
    """Hidden states are kept that belong to another network."""

    def __init__(self, network: Network, error: ForeignStatesError) -> None:
        super().__init__(
            f"The network {network.name} has other junctions, phases or lanes than the one that"
            " the hidden states of this application belong to, or diagnose_detectors was changed,"
            f" and {error.found}. Serve the network file and the setting that they belong to and"
            " reset the runs, or give the application another name."
        )


def _front_is_complete() -> bool:
    return not any(missing(read_front_configuration()))


@serve.deployment(name="Inference")
@serve.ingress()
class Inference(ReplicaBase):
    """One replica: serves the policy over HTTP.

    Args:
        agent_path: the policy's file, unless ``user_config`` names another.
        open_store: opens the store that has copies of the hidden states.
        open_tokens: reads the tokens of which clients must send one; None requires none.
        network: whose junctions are served.
    """

    async def __init__(  # type: ignore[misc]
        self,
        options: InferenceOptions,
        agent_path: str,
        open_store: Callable[[], Store],
        observability: Observability | None = None,
        open_tokens: Callable[[], Sequence[str]] | None = None,
        network: Network = SHIPPED,
    ) -> None:
        super().__init__(observability)
        self._guard = open_tokens and BearerGuard(open_tokens())
        store = open_store()
        diagnoses = diagnoses_of(network, options.diagnose_detectors)
        state = np.zeros(state_width(diagnoses), np.float32)
        output = output_form(network, diagnoses)
        tag = network.digest if diagnoses is None else f"{network.digest} with diagnosis"
        try:
            engine = await Engine.connect(options, state, output, tag, open_store)
        except ForeignStatesError as error:
            raise AnotherNetworkError(network, error) from error
        self._service = InferenceService(engine, network, diagnoses)
        await self._service.policies.start(agent_path)
        self.checks |= {**self._service.checks(), "store": store_check(store)}
        self.checks["front"] = Check(
            lambda: asyncio.to_thread(_front_is_complete),
            "Serve's front does not keep runs at their replicas; `make status` says why.",
            required=False,
        )
        self.close_at_end(self._service.close, store.close)

    def __serve_build_asgi_app__(self) -> FastAPI:
        service = self._service
        app = create_app(service, self.probes, self.access_log, self._guard)
        times = app.state.request_times.of("POST", "/predict_action")
        reporter = InferenceReporter(service, times)
        return self.instrument(app, InferenceMetrics(service).publish, reporter)

    async def reconfigure(self, user_config: dict[str, Any]) -> None:
        """Swap the policies; a file that cannot be served leaves the present one in place."""
        await self._service.policies.reconfigure(user_config)
