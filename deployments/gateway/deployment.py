"""The gateway deployment: wires the service into a Serve replica."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from fastapi import FastAPI
from ray import serve

from deployments.access.control import AccessControl
from deployments.access.keys import Keys
from deployments.gateway.api import create_app
from deployments.gateway.fallbacks import Fallback, make_fallback
from deployments.gateway.inference_calls.breaker import CircuitBreaker, State
from deployments.gateway.inference_calls.client import (
    InferenceClient,
    InferenceUnavailableError,
    Transport,
)
from deployments.gateway.inference_calls.transports import make_transport
from deployments.gateway.login import Logins
from deployments.gateway.options import GatewayOptions
from deployments.gateway.safety import limits_of, make_guard
from deployments.gateway.service import GatewayCounts, GatewayService
from deployments.gateway.telemetry import GatewayMetrics, GatewayReporter
from deployments.gateway.users import Users
from deployments.http.probes import store_check
from deployments.replica import Observability, ReplicaBase
from deployments.store import Store
from models.junctions import SHIPPED
from models.networks.network import Network
from models.signals.clock_plan import ClockPlan

logger = logging.getLogger("ray.serve")


@serve.deployment(name="Gateway")
@serve.ingress()
class Gateway(ReplicaBase):
    """One replica: checks tokens and requests, asks the inference service, falls back.

    Args:
        open_keys: returns what reads the keys of the tokens, to be called where they are used: Ray
            keeps what is bound to a deployment.
        token_lifetime_s: from a token's issue to its expiry.
        users: names and password hashes from the configuration; the others are in the store.
        open_store: opens the store where users and login counters live.
        inference_url: full ``/predict_action`` URL; None calls the application of the options.
        plan: of the fallback by plan; None falls back to RED.
        open_tokens: reads, where they are used, the tokens of the inference service; None where
            it asks for none.
        network: whose junctions are decided for.
    """

    async def __init__(  # type: ignore[misc]
        self,
        options: GatewayOptions,
        open_keys: Callable[[], Callable[[], Keys]],
        token_lifetime_s: int,
        users: Mapping[str, str],
        open_store: Callable[[], Store],
        inference_url: str | None,
        plan: ClockPlan | None = None,
        observability: Observability | None = None,
        open_tokens: Callable[[], Sequence[str]] | None = None,
        network: Network = SHIPPED,
    ) -> None:
        super().__init__(observability)
        self._options, self._network = options, network
        store = open_store()
        access = AccessControl.of_store(
            store,
            users,
            open_keys(),
            token_lifetime_s,
            options.clock_skew_s,
            options.scopes_while_unchecked,
        )
        self.run(*await access.start())
        logins = Logins(store, Users(store, users), access.tokens, options)
        counts = GatewayCounts()
        fallback = make_fallback(plan, options.plan_time_zone)
        guard = make_guard(limits_of(options), network) if options.safety else None
        token = open_tokens()[0] if open_tokens else None
        transport = make_transport(options, inference_url, token, network.n_actions)
        inference = _make_client(options, transport, counts, fallback)
        capacities = options.lane_capacities or network.capacities
        self._service = GatewayService(
            logins,
            access.tokens,
            inference,
            capacities,
            counts,
            fallback,
            access.audit,
            guard,
            network,
        )
        self.close_at_end(access.close, self._service.close)
        self.checks |= {**access.checks, "store": store_check(store)}

    def __serve_build_asgi_app__(self) -> FastAPI:
        app = create_app(self._service, self._options, self.probes, self.access_log, self._network)
        reporter = GatewayReporter(self._service, app.state.request_times)
        return self.instrument(app, GatewayMetrics(self._service).publish, reporter)


def _make_client(
    options: GatewayOptions,
    transport: Transport,
    counts: GatewayCounts,
    fallback: Fallback,
) -> InferenceClient:
    breaker = CircuitBreaker(
        InferenceUnavailableError,
        options.breaker_failures,
        options.breaker_pause_s,
        partial(_log_change, fallback),
    )
    return InferenceClient(transport, breaker, options.deadline_s, counts.latencies_s.observe)


def _log_change(fallback: Fallback, state: State) -> None:
    if state is State.CLOSED:
        logger.info("The inference service answers again.")
    else:
        logger.warning("The inference service is down; answering %s.", fallback.INSTEAD)
