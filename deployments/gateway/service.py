"""The gateway without HTTP and without Ray: what each route does."""

from __future__ import annotations

import asyncio
import contextvars
import random
import re
from collections import Counter
from dataclasses import dataclass, field

from deployments.gateway.action_request import ActionQuery, parse_action_request, parse_json_object
from deployments.gateway.errors import BadRequestError, GatewayError, UnavailableError, now_ms
from deployments.gateway.inference_calls.breaker import State
from deployments.gateway.inference_calls.client import (
    InferenceClient,
    InferenceUnavailableError,
    Step,
    new_key,
)
from deployments.gateway.login import Logins
from deployments.gateway.observations import LaneCapacities, random_observation
from deployments.gateway.schemas import (
    ActionResponse,
    ActionStatus,
    HealthResponse,
    LoginResponse,
    ResetResponse,
)
from deployments.gateway.signals import FALLBACK_ACTION, FALLBACK_STATUS, SIGNAL_OF_ACTION
from deployments.gateway.tokens import Tokens
from deployments.http.names import NOT_A_KEY, NOT_A_RUN_ID, is_name
from deployments.log import Seldom
from deployments.metrics.sampled import Sampled
from models.junctions import JUNCTIONS

_REQUEST_ID = re.compile(r"[!-~]{1,128}")


@dataclass
class GatewayCounts:
    """Counted since the start, for metrics.

    Attributes:
        logins: by outcome, ``success`` or the HTTP status of the refusal.
        actions: by (junction, signal state).
        fallbacks: by cause.
        latencies_s: of the inference service as seen from here, a sample.
    """

    logins: Counter[str] = field(default_factory=Counter)
    actions: Counter[tuple[str, str]] = field(default_factory=Counter)
    fallbacks: Counter[str] = field(default_factory=Counter)
    latencies_s: Sampled[float] = field(default_factory=Sampled)


class GatewayService:
    """Validates, forwards, and falls back to RED.

    Args:
        capacities: vehicles that fit on each incoming lane, by junction.
    """

    def __init__(
        self,
        logins: Logins,
        tokens: Tokens,
        inference: InferenceClient,
        capacities: LaneCapacities,
        counts: GatewayCounts,
    ) -> None:
        self.tokens = tokens
        self.counts = counts
        self._logins = logins
        self._inference = inference
        self._capacities = capacities
        self._random = random.Random()
        self._log = Seldom("Answers")
        self._health_probe: asyncio.Task[bool] | None = None

    @property
    def breaker_state(self) -> State:
        return self._inference.breaker.state

    async def login(self, body: bytes, address: str) -> LoginResponse:
        """Exchange credentials for a token; raise what :meth:`.login.Logins.login` raises."""
        try:
            fields = parse_json_object(body)
            credentials = fields.get("username"), fields.get("password")
            token = await self._logins.login(*credentials, address)
        except GatewayError as error:
            self.counts.logins[str(error.status)] += 1
            if error.retry_after_s is not None:
                self._log.warning(f"login {error.status}", "Refused a login: %s", error)
            raise
        self.counts.logins["success"] += 1
        return LoginResponse(
            accessToken=token, expiresIn=self.tokens.lifetime_s, timestamp=now_ms()
        )

    async def act(
        self, body: bytes, run: str | None, key: str | None, request_id: str | None
    ) -> ActionResponse:
        """Answer POST /traffic/action.

        Args:
            body: JSON.
            run: the X-Simulation-Run header.
            key: the Idempotency-Key header.
            request_id: the x-request-id header, passed on when it is sane.

        Raises:
            BadRequestError: the request breaks a rule; no state has changed.
        """
        query = parse_action_request(body, self._capacities)
        return await self._decide(query, run, key, request_id)

    async def demo(self, run: str | None, request_id: str | None) -> ActionResponse:
        """Answer GET /traffic/action, for a random junction."""
        junction = self._random.choice(list(JUNCTIONS.values()))
        query = ActionQuery(junction.id, random_observation(junction, self._random))
        return await self._decide(query, run, None, request_id)

    async def _decide(
        self, query: ActionQuery, run: str | None, key: str | None, request_id: str | None
    ) -> ActionResponse:
        run, key = _checked(run, NOT_A_RUN_ID), _checked(key, NOT_A_KEY)
        step = Step(run, *query, key or new_key(), _sane(request_id))
        status: ActionStatus = "success"
        try:
            action = await self._inference.act(step)
        except InferenceUnavailableError as error:
            self.counts.fallbacks[error.cause] += 1
            about = {"run": run, "junction": query.junction_id}
            self._log.warning(error.cause, "Answered without the policy: %s", error, **about)
            action, status = FALLBACK_ACTION, FALLBACK_STATUS
        signal = SIGNAL_OF_ACTION[action]
        self.counts.actions[query.junction_id, signal] += 1
        return ActionResponse.model_construct(
            junctionId=query.junction_id,
            predictedAction=action,
            signalState=signal,
            timestamp=now_ms(),
            status=status,
        )

    async def reset(self, run: str | None, request_id: str | None) -> ResetResponse:
        """Clear a run's hidden states.

        Raises:
            UnavailableError: the inference service is down; the states may be as they were.
        """
        try:
            await self._inference.reset(_checked(run, NOT_A_RUN_ID), _sane(request_id))
        except InferenceUnavailableError as error:
            raise UnavailableError("The inference service did not confirm the reset") from error
        return ResetResponse()

    async def health(self) -> HealthResponse:
        """Tell whether the inference service is healthy; requests at the same time share a call."""
        if self._health_probe is None or self._health_probe.done():
            # not in the context of the first request, with which Serve would cancel it
            context = contextvars.Context()
            self._health_probe = asyncio.create_task(self._inference.is_healthy(), context=context)
        healthy = await asyncio.shield(self._health_probe)
        return HealthResponse(
            status="healthy" if healthy else "degraded",
            inferenceService="up" if healthy else "down",
            timestamp=now_ms(),
        )

    async def close(self) -> None:
        if self._health_probe is not None:
            self._health_probe.cancel()
        await self._inference.close()
        await self._logins.close()


def _checked(name: str | None, refusal: str) -> str | None:
    if name is not None and not is_name(name):
        raise BadRequestError(refusal)
    return name


def _sane(request_id: str | None) -> str | None:
    return request_id if request_id and _REQUEST_ID.fullmatch(request_id) else None
