"""The gateway deployment: wires the service into a Serve replica."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from fastapi import FastAPI
from ray import serve

from deployments.access.audit import PERIOD_S as NOTED_S
from deployments.access.audit import AuditBuffer, AuditLog
from deployments.access.keys import Keys
from deployments.access.refresher import Refresher, start_refresher
from deployments.access.revocations import Revocations, UserRule
from deployments.access.service_tokens import ServiceTokenRule
from deployments.access.tokens import Tokens
from deployments.feed.actor import start_publisher
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
from deployments.http.access_log import AccessLog
from deployments.http.fast_path import fast_path_protocol
from deployments.http.probes import Check, Probes, store_check
from deployments.metrics.exported import RequestMetrics
from deployments.metrics.publisher import Publisher
from deployments.ray_private.http_server import install_protocol
from deployments.ray_private.serve import keep_calls_inside, prepare_log
from deployments.store import Store
from deployments.tracing.process import TracingOptions
from deployments.tracing.replica import end_traces, trace_replica
from models.junctions import SHIPPED
from models.networks.network import Network
from models.signals.clock_plan import ClockPlan

logger = logging.getLogger("ray.serve")


@serve.deployment(name="Gateway")
@serve.ingress()
class Gateway:
    """One replica: checks tokens and requests, asks the inference service, falls back.

    Args:
        open_keys: returns what reads the keys of the tokens, to be called where they are used: Ray
            keeps what is bound to a deployment.
        token_lifetime_s: from a token's issue to its expiry.
        users: names and password hashes from the configuration; the others are in the store.
        open_store: opens the store where users and login counters live.
        inference_url: full ``/predict_action`` URL; None calls the application of the options.
        plan: of the fallback by plan; None falls back to RED.
        access_log_share: of the requests that get a line in the log, from 0 to 1.
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
        access_log_share: float = 0.0,
        tracing: TracingOptions | None = None,
        open_tokens: Callable[[], Sequence[str]] | None = None,
        network: Network = SHIPPED,
    ) -> None:
        prepare_log()
        keep_calls_inside()
        trace_replica(tracing)
        read_keys = open_keys()
        store = open_store()
        revocations = Revocations([UserRule(store, users), ServiceTokenRule(store)])
        tokens = Tokens(
            read_keys(),
            token_lifetime_s,
            options.clock_skew_s,
            revocations=revocations,
            unchecked=options.scopes_while_unchecked,
        )
        self._access = await start_refresher(tokens, read_keys)
        audit = AuditBuffer(AuditLog(store))
        self._audit = Refresher({"The audit log": audit.flush}, NOTED_S)
        logins = Logins(store, Users(store, users), tokens, options)
        counts = GatewayCounts()
        fallback = make_fallback(plan, options.plan_time_zone)
        guard = make_guard(limits_of(options), network) if options.safety else None
        token = open_tokens()[0] if open_tokens else None
        transport = make_transport(options, inference_url, token, network.n_actions)
        inference = _make_client(options, transport, counts, fallback)
        self._options, self._network = options, network
        capacities = options.lane_capacities or network.capacities
        self._service = GatewayService(
            logins, tokens, inference, capacities, counts, fallback, audit, guard, network
        )
        self._metrics = Publisher(GatewayMetrics(self._service).publish)
        key = Check(tokens.check, "Tokens cannot be signed and verified.")
        known = Check(revocations.are_fresh, "It is not known which tokens are revoked.")
        checks = {"signing_key": key, "store": store_check(store), "revocations": known}
        self._probes = Probes(self.check_health, checks)
        self._access_log = AccessLog(access_log_share)

    def __serve_build_asgi_app__(self) -> FastAPI:
        app = create_app(
            self._service, self._options, self._probes, self._access_log, self._network
        )
        self._metrics.add(RequestMetrics(app.state.request_times).publish)
        self._feed = start_publisher(GatewayReporter(self._service, app.state.request_times))
        install_protocol(fast_path_protocol(app))
        return app

    def check_health(self) -> None:
        self._access.check_health()
        self._audit.check_health()
        self._metrics.check_health()
        self._feed.check_health()

    async def __del__(self) -> None:
        self._access.stop()
        self._audit.stop()
        self._metrics.stop()
        self._feed.stop()
        await self._service.close()
        await end_traces()


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
