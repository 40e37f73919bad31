"""The gateway deployment: wires the service into a Serve replica."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from fastapi import FastAPI
from ray import serve

from deployments.gateway.api import create_app
from deployments.gateway.inference_calls.breaker import CircuitBreaker, State
from deployments.gateway.inference_calls.client import InferenceClient, InferenceUnavailableError
from deployments.gateway.inference_calls.transports import make_transport
from deployments.gateway.login import Logins
from deployments.gateway.metrics import GatewayMetrics
from deployments.gateway.options import GatewayOptions
from deployments.gateway.service import GatewayCounts, GatewayService
from deployments.gateway.tokens import Tokens
from deployments.gateway.users import Users
from deployments.metrics.publisher import Publisher
from deployments.ray_private.serve import prepare_log
from deployments.store import Store

logger = logging.getLogger("ray.serve")


@serve.deployment(name="Gateway")
@serve.ingress()
class Gateway:
    """One replica: checks tokens and requests, asks the inference service, falls back to RED.

    Args:
        read_secret: reads the signing key of the tokens where it is used: Ray keeps what is bound
            to a deployment.
        token_lifetime_s: from a token's issue to its expiry.
        users: names and password hashes from the configuration; the others are in the store.
        open_store: opens the store where users and login counters live.
        inference_url: full ``/predict_action`` URL; None calls the application of the options.
    """

    async def __init__(  # type: ignore[misc]
        self,
        options: GatewayOptions,
        read_secret: Callable[[], bytes],
        token_lifetime_s: int,
        users: Mapping[str, str],
        open_store: Callable[[], Store],
        inference_url: str | None,
    ) -> None:
        prepare_log()
        tokens = Tokens(read_secret(), token_lifetime_s, options.clock_skew_s)
        store = open_store()
        logins = Logins(store, Users(store, users), tokens, options)
        counts = GatewayCounts()
        inference = _make_client(options, inference_url, counts)
        self._options = options
        self._service = GatewayService(logins, tokens, inference, options.lane_capacities, counts)
        self._metrics = Publisher(GatewayMetrics(self._service).publish)

    def __serve_build_asgi_app__(self) -> FastAPI:
        return create_app(self._service, self._options)

    def check_health(self) -> None:
        self._metrics.check_health()

    async def __del__(self) -> None:
        self._metrics.stop()
        await self._service.close()


def _make_client(
    options: GatewayOptions, inference_url: str | None, counts: GatewayCounts
) -> InferenceClient:
    breaker = CircuitBreaker(
        InferenceUnavailableError, options.breaker_failures, options.breaker_pause_s, _log_change
    )
    transport = make_transport(options, inference_url)
    return InferenceClient(transport, breaker, options.deadline_s, counts.latencies_s.observe)


def _log_change(state: State) -> None:
    if state is State.CLOSED:
        logger.info("The inference service answers again.")
    else:
        logger.warning("The inference service is down; answering RED.")
