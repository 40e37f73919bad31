"""The gateway deployment: wires the service into a Serve replica."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from fastapi import FastAPI
from ray import serve

from deployments.access.control import AccessControl
from deployments.access.keys import Keys
from deployments.gateway.api import create_app
from deployments.gateway.fallbacks import Fallback
from deployments.gateway.inference_calls.address import base_finder
from deployments.gateway.inference_calls.breaker import State
from deployments.gateway.inference_calls.client import InferenceClient
from deployments.gateway.inference_calls.http_calls import HttpCalls
from deployments.gateway.login import Logins
from deployments.gateway.options import GatewayOptions
from deployments.gateway.safety import make_guard
from deployments.gateway.service import GatewayService
from deployments.gateway.telemetry import GatewayMetrics, GatewayReporter
from deployments.gateway.users import Users
from deployments.http.probes import store_check
from deployments.log import logger
from deployments.replica import Observability, ReplicaBase
from deployments.store import Store
from models.networks.network import Network
from models.signals.clock_plan import ClockPlan


@serve.deployment(name="Gateway")
@serve.ingress()
class Gateway(ReplicaBase):
    """One replica: checks tokens and requests, asks the inference service, falls back.

    Secrets are read in the replica, by functions: Ray stores what is bound to a deployment.

    Args:
        open_keys: returns the function that reads the signing keys.
        token_lifetime_s: from a token's issue to its expiry.
        users: names and password hashes from the configuration; the others are in the store.
        open_store: opens the store of users and login counters.
        inference_url: full ``/predict_action`` URL; None calls the application of the options.
        plan: of the fallback; None falls back to RED.
        open_tokens: reads the tokens of the inference service; None if it needs none.
        network: whose junctions it decides for.
    """

    async def __init__(  # type: ignore[misc]
        self,
        options: GatewayOptions,
        open_keys: Callable[[], Callable[[], Keys]],
        token_lifetime_s: int,
        users: Mapping[str, str],
        open_store: Callable[[], Store],
        inference_url: str | None,
        plan: ClockPlan | None,
        observability: Observability,
        open_tokens: Callable[[], Sequence[str]] | None,
        network: Network,
    ) -> None:
        super().__init__(observability)
        store = open_store()
        access = AccessControl.of_store(store, users, open_keys(), token_lifetime_s)
        self.stop_at_end(*await access.start())
        logins = Logins(store, Users(store, users), access.tokens)
        fallback = Fallback(plan, options.plan_time_zone)
        token = open_tokens()[0] if open_tokens else None
        calls = HttpCalls(
            base_finder(inference_url, options.inference_app),
            options.deadline_s,
            token,
            network.n_actions,
        )
        inference = InferenceClient(
            calls,
            options.deadline_s,
            shares_calls=inference_url is None,
            on_breaker=partial(_log_change, fallback),
        )
        self._service = GatewayService(
            logins, access, inference, fallback, make_guard(options, network), network
        )
        self.close_at_end(access.close, self._service.close)
        self.checks |= {**access.checks, "store": store_check(store)}

    def __serve_build_asgi_app__(self) -> FastAPI:
        app = create_app(self._service, self.probes, self.access_log)
        reporter = GatewayReporter(self._service, app.state.request_times)
        return self.instrument(app, GatewayMetrics(self._service).publish, reporter)


def _log_change(fallback: Fallback, state: State) -> None:
    if state is State.CLOSED:
        logger.info("The inference service answers again.")
    else:
        name = "the fixed-time plan" if fallback.has_plan else "RED"
        logger.warning("The inference service is down; the fallback is %s.", name)
