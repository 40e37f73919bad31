"""The gateway deployment: wires the service into a Serve replica."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fastapi import FastAPI
from ray import serve
from ray.serve.context import _RequestContext, _serve_request_context

from deployments.gateway.api import MAX_WAITING, create_app
from deployments.gateway.inference_calls.breaker import CircuitBreaker, State
from deployments.gateway.inference_calls.client import (
    InferenceClient,
    InferenceUnavailableError,
    Transport,
)
from deployments.gateway.inference_calls.handle_transport import HandleTransport
from deployments.gateway.inference_calls.http_transport import HttpTransport, base_of
from deployments.gateway.inference_calls.local_front import find_base_url
from deployments.gateway.login import LoginLimits, Logins
from deployments.gateway.metrics import GatewayMetrics
from deployments.gateway.observations import LaneCapacities
from deployments.gateway.service import GatewayCounts, GatewayService
from deployments.gateway.tokens import Tokens
from deployments.gateway.users import Users
from deployments.metrics.publisher import Publisher
from deployments.store import Store

logger = logging.getLogger("ray.serve")

CallBy = Literal["http", "handle"]


@dataclass(frozen=True)
class GatewayOptions:
    """What a replica is built from.

    Attributes:
        read_secret: reads the signing key of the tokens where it is used: Ray keeps what is bound
            to a deployment.
        users: names and password hashes from the configuration; the others are in the store.
        open_store: opens the store where users and login counters live.
        inference_url: full ``/predict_action`` URL; None calls ``inference_app``.
        call_by: how ``inference_app`` is called: at this node's HTTP front, or by Serve handle.
        deadline_s: for an answer of the inference service.
    """

    read_secret: Callable[[], bytes]
    open_store: Callable[[], Store]
    lane_capacities: LaneCapacities
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    token_lifetime_s: int = 3600
    clock_skew_s: float = 5.0
    login_limits: LoginLimits = field(default_factory=LoginLimits)
    inference_url: str | None = None
    inference_app: str = "inference"
    call_by: CallBy = "http"
    deadline_s: float = 2.0
    breaker_failures: int = 5
    breaker_pause_s: float = 1.0
    max_waiting: int = MAX_WAITING
    trust_forwarded_for: bool = True


@serve.deployment(name="Gateway")
@serve.ingress()
class Gateway:
    """One replica: checks tokens and requests, asks the inference service, falls back to RED."""

    async def __init__(self, options: GatewayOptions) -> None:  # type: ignore[misc]
        self._options = options
        self._service = _build_service(options)
        self._metrics = Publisher(GatewayMetrics(self._service).publish)

    def __serve_build_asgi_app__(self) -> FastAPI:
        options = self._options
        return create_app(self._service, options.max_waiting, options.trust_forwarded_for)

    def check_health(self) -> None:
        self._metrics.check_health()

    async def __del__(self) -> None:
        self._metrics.stop()
        await self._service.close()


def _build_service(options: GatewayOptions) -> GatewayService:
    counts = GatewayCounts()
    tokens = Tokens(options.read_secret(), options.token_lifetime_s, options.clock_skew_s)
    store = options.open_store()
    logins = Logins(store, Users(store, options.users), tokens, options.login_limits)
    breaker = CircuitBreaker(
        InferenceUnavailableError, options.breaker_failures, options.breaker_pause_s, _log_change
    )
    inference = InferenceClient(_transport(options), breaker, counts.latencies_s.observe)
    return GatewayService(logins, tokens, inference, options.lane_capacities, counts)


def _transport(options: GatewayOptions) -> Transport:
    application = options.inference_app
    if options.inference_url is not None:
        base = base_of(options.inference_url)

        async def configured() -> str:
            return base

        return HttpTransport(configured, options.deadline_s, shares_calls=False)
    if options.call_by == "http":
        return HttpTransport(
            lambda: find_base_url(application), options.deadline_s, shares_calls=True
        )
    return HandleTransport(lambda: _find_handle(application), options.deadline_s, _context_of)


async def _find_handle(application: str) -> _Remote:
    handle = await asyncio.to_thread(serve.get_app_handle, application)
    # plain tuples: pickle does what cloudpickle, the default, does more slowly
    return _Remote(handle.options(request_serialization="pickle", response_serialization="pickle"))


def _context_of(request_id: str | None) -> contextvars.Context:
    """A context of no client's request, whose calls bear an id in the logs."""
    context = contextvars.Context()
    context.run(_serve_request_context.set, _RequestContext(request_id=request_id or ""))
    return context


class _Remote:
    """The inference deployment's methods; Serve would look up each of them anew at each call."""

    def __init__(self, handle: Any) -> None:
        self.act = handle.act.remote
        self.reset_run = handle.reset_run.remote
        self.health_status = handle.health_status.remote


def _log_change(state: State) -> None:
    if state is State.CLOSED:
        logger.info("The inference service answers again.")
    else:
        logger.warning("The inference service is down; answering RED.")
