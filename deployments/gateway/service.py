"""The gateway without HTTP and Ray: what each route does."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from deployments.access.control import AccessControl
from deployments.aio import SingleFlight
from deployments.feed.messages import Decision
from deployments.feed.publisher import WatchedEvents
from deployments.gateway.action_request import (
    ActionQuery,
    parse_action_request,
    parse_json_object,
    random_observation,
)
from deployments.gateway.errors import CAUSES, InferenceUnavailableError, UnavailableError
from deployments.gateway.fallbacks import Fallback
from deployments.gateway.inference_calls.batcher import Step
from deployments.gateway.inference_calls.breaker import State
from deployments.gateway.inference_calls.client import InferenceClient
from deployments.gateway.login import Logins
from deployments.gateway.safety import SafetyGuard, made_up
from deployments.gateway.schemas import (
    FALLBACK_STATUS,
    ActionStatus,
    HealthResponse,
    LoginResponse,
    ResetResponse,
    Safety,
    signal_of,
)
from deployments.http.errors import RefusedError
from deployments.http.messages import DEFAULT_RUN, now_ms
from deployments.log import about, logger
from deployments.metrics.sampled import Sampled, junction_labels
from deployments.trace_context import CURRENT
from models.networks.network import Network
from models.networks.shipped import SHIPPED
from models.signals.clock_plan import Planned
from models.signals.diagnosis import Fault

ActionBody = dict[str, Any]
"""The members of an ActionResponse that are set: the model would double the rendering time."""

MAX_FALLBACKS = 50  # between two reports to the console


class Names(NamedTuple):
    """What a request names.

    Attributes:
        run: simulation run, None for the default one.
        key: idempotency key, new unless the client sent one.
        request_id: for the inference service's log.
    """

    run: str | None
    key: str
    request_id: str | None


class _Choice(NamedTuple):
    """An action of the policy or the fallback, before the safety layer."""

    action: int
    failed_detectors: Mapping[str, Fault]
    status: ActionStatus = "success"
    plan: str | None = None


@dataclass
class GatewayCounts:
    """Counts since the start of the replica, for metrics.

    Attributes:
        logins: by outcome: ``success`` or the HTTP status of the refusal.
        actions: by junction and signal state.
        fallbacks: by cause.
        latencies_s: a sample of the inference service's latencies.
    """

    logins: Counter[str] = field(default_factory=lambda: Counter({"success": 0, "401": 0}))
    actions: Counter[tuple[str, str]] = field(default_factory=Counter)
    fallbacks: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(CAUSES, 0)))
    latencies_s: Sampled[float] = field(default_factory=Sampled)


class GatewayService:
    """Validates requests, asks the inference service, and falls back.

    Args:
        fallback: answers while the inference service does not.
        guard: the safety layer; None lets every answer pass.
        network: whose junctions it decides for.

    Attributes:
        access: its tokens, and its log of logins, resets and refusals.
        watched_fallbacks: answers without the policy, for an open console.
    """

    def __init__(
        self,
        logins: Logins,
        access: AccessControl,
        inference: InferenceClient,
        fallback: Fallback | None = None,
        guard: SafetyGuard | None = None,
        network: Network = SHIPPED,
    ) -> None:
        self.access = access
        self.counts = GatewayCounts()
        self.watched_fallbacks: WatchedEvents[Decision] = WatchedEvents(MAX_FALLBACKS)
        self._logins = logins
        self._inference = inference
        self.network = network
        self._labels = dict(zip(network.ids, junction_labels(network), strict=True))
        self._fallback = fallback or Fallback()
        self._guard = guard
        self._health = SingleFlight(inference.is_healthy)

    @property
    def breaker_state(self) -> State:
        return self._inference.breaker.state

    async def login(self, body: bytes, address: str) -> LoginResponse:
        """Exchange credentials for a token; raise what :meth:`.login.Logins.login` raises."""
        try:
            fields = parse_json_object(body)
            credentials = fields.get("username"), fields.get("password")
            token = await self._logins.login(*credentials, address)
        except RefusedError as error:
            self.counts.logins[str(error.status)] += 1
            if error.status in (401, 429):
                self.access.audit.note("login refused", error.subject, address, str(error))
            if error.retry_after_s is not None:
                logger.warning("Refused a login: %s", error)
            raise
        self.counts.logins["success"] += 1
        self.access.audit.note("login", str(credentials[0]), address)
        return LoginResponse(
            accessToken=token, expiresIn=self.access.tokens.lifetime_s, timestamp=now_ms()
        )

    async def act(self, body: bytes, names: Names) -> ActionBody:
        """Answer POST /traffic/action.

        Raises:
            BadRequestError: the request breaks a rule; no state has changed.
        """
        safely = self._guard is not None
        return await self._decide(parse_action_request(body, safely, self.network), names)

    async def demo(self, names: Names) -> ActionBody:
        """Answer GET /traffic/action, for a random junction.

        Junction and observation follow from the key, so that a repeated request is the same step.
        """
        source = random.Random(names.key)
        junction = source.choice(list(self.network.junctions.values()))
        observation = random_observation(junction, source)
        query = ActionQuery(junction.id, observation, None, made_up(junction, observation))
        return await self._decide(query, names)

    async def _decide(self, query: ActionQuery, names: Names) -> ActionBody:
        run, key, request_id = names
        step = Step(run, query.junction_id, query.obs, key, request_id, CURRENT.get())
        choice = await self._choose(query, step)
        action, safety = choice.action, None
        if self._guard is not None and query.shown is not None:
            action, safety = self._guard.decide(query.junction_id, query.shown, action)
        return self._answer(query.junction_id, action, choice, safety)

    async def _choose(self, query: ActionQuery, step: Step) -> _Choice:
        """Return the choice of the policy, or of the fallback.

        A plan is preferred to a decision that was made without any detector.
        """
        failed: Mapping[str, Fault] = {}
        started = time.perf_counter()
        try:
            action, failed = await self._inference.act(step)
            self.counts.latencies_s.observe(time.perf_counter() - started)
            n_lanes = self.network.junctions[query.junction_id].n_lanes
            if len(failed) == n_lanes and self._fallback.has_plan:
                raise InferenceUnavailableError("detectors_failed", "all detectors have failed")
        except InferenceUnavailableError as error:
            action, plan = self._without_policy(query, step.run, error) or (0, None)
            return _Choice(action, failed, FALLBACK_STATUS, plan)
        return _Choice(action, failed)

    def _answer(
        self, junction_id: str, action: int, choice: _Choice, safety: Safety | None
    ) -> ActionBody:
        signal = signal_of(action)
        self.counts.actions[self._labels[junction_id], signal] += 1
        answer: ActionBody = {
            "junctionId": junction_id,
            "predictedAction": action,
            "signalState": signal,
            "timestamp": now_ms(),
            "status": choice.status,
        }
        if choice.plan is not None:
            answer["fallbackPlan"] = choice.plan
        if safety is not None:
            answer["safety"] = safety
        if choice.failed_detectors:
            answer["failedDetectors"] = dict(choice.failed_detectors)
        return answer

    def _without_policy(
        self, query: ActionQuery, run: str | None, error: InferenceUnavailableError
    ) -> Planned | None:
        """Return the answer of the fallback, and note it."""
        junction = query.junction_id
        self.counts.fallbacks[error.cause] += 1
        extra = about(run=run, junction=junction)
        logger.warning("Answered without the policy: %s", error, extra=extra)
        answer = self._fallback.act(junction, query.simulation_time_s)
        if self.watched_fallbacks.watched:
            at, run, action = time.time(), run or DEFAULT_RUN, answer.phase if answer else 0
            self.watched_fallbacks.note(
                Decision(at, run, junction, query.obs, action, fallback=error.cause)
            )
        return answer

    async def reset(self, names: Names) -> ResetResponse:
        """Clear a run's hidden states.

        Raises:
            UnavailableError: the inference service is down; the states may be as they were.
        """
        try:
            await self._inference.reset(*names)
        except InferenceUnavailableError as error:
            raise UnavailableError("The inference service did not confirm the reset") from error
        return ResetResponse()

    async def health(self) -> HealthResponse:
        """Return whether the inference service is healthy; simultaneous requests share a call."""
        healthy = await self._health.result()
        return HealthResponse(
            status="healthy" if healthy else "degraded",
            inferenceService="up" if healthy else "down",
            timestamp=now_ms(),
        )

    async def close(self) -> None:
        self._health.cancel()
        await self._inference.close()
        await self._logins.close()
