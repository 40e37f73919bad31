"""What each route of the gateway does."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json
from starlette.types import Scope

from deployments.access.control import AccessControl
from deployments.access.keys import public_keys
from deployments.aio import SingleFlight
from deployments.feed.messages import Decision
from deployments.feed.publisher import WatchedEvents
from deployments.gateway.action_request import (
    ActionQuery,
    Names,
    parse_action_request,
    parse_json_object,
    random_observation,
    read_names,
)
from deployments.gateway.errors import (
    CAUSES,
    BadRequestError,
    InferenceUnavailableError,
    UnavailableError,
)
from deployments.gateway.fallbacks import Fallback
from deployments.gateway.inference_calls.batcher import Step
from deployments.gateway.inference_calls.breaker import State
from deployments.gateway.inference_calls.client import InferenceClient
from deployments.gateway.login import Logins
from deployments.gateway.safety import SafetyGuard, made_up
from deployments.gateway.schemas import (
    FALLBACK_STATUS,
    HealthResponse,
    LoginResponse,
    ResetResponse,
    signal_of,
)
from deployments.http.errors import RefusedError
from deployments.http.messages import DEFAULT_RUN, JSON_HEADERS, RUN_HEADER, Answer, now_ms
from deployments.http.request import client_address
from deployments.log import about, logger
from deployments.metrics.sampled import Sampled, junction_labels
from deployments.trace_context import CURRENT
from models.networks.network import Network
from models.networks.shipped import SHIPPED
from models.signals.clock_plan import Planned

MAX_FALLBACKS = 50  # between two reports to the console
_NOTHING = (b"", b"{}", b"null")
_TAKES_NOTHING = f"A reset takes no query and no body. Name the run in the header {RUN_HEADER}"
_GRANT_HEADERS = [*JSON_HEADERS, (b"cache-control", b"no-store")]  # RFC 6749, section 5.1
# shorter than a new key is shown before it signs (`greenwave keys rotate --after`)
_KEYS_HEADERS = [*JSON_HEADERS, (b"cache-control", b"public, max-age=15")]


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

    The docstrings of its handlers are those of the OpenAPI document.

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

    async def login(self, scope: Scope, body: bytes) -> Answer:
        """Exchange user name and password for an access token."""
        address = client_address(scope)
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
        grant = LoginResponse(
            accessToken=token, expiresIn=self.access.tokens.lifetime_s, timestamp=now_ms()
        )
        return 200, to_json(grant), _GRANT_HEADERS

    async def keys(self, scope: Scope, body: bytes) -> Answer:
        """Show the public keys that tokens are verified with, as a JWK Set (RFC 7517).

        The set is empty while a shared secret signs the tokens, which is the default.
        """
        return 200, public_keys(self.access.tokens.keys, time.time()), _KEYS_HEADERS

    async def act(self, scope: Scope, body: bytes) -> Answer:
        """Choose the signal of a junction from its observations.

        When the inference service does not answer in time, the answer is the fallback, with the
        status `fallback_mode (inference service down)`: RED, or what a fixed-time plan says. A step
        that was late may still have been made.
        A request that is repeated with its `Idempotency-Key` gets that step's decision.
        """
        names = read_names(scope)
        safely = self._guard is not None
        return await self._decide(parse_action_request(body, safely, self.network), names)

    async def demo(self, scope: Scope, body: bytes) -> Answer:
        """Decide for a random junction with made-up observations.

        A request that is repeated with its `Idempotency-Key` gets the same junction and decision.
        """
        names = read_names(scope)
        source = random.Random(names.key)  # so that a repeated request is the same step
        junction = source.choice(list(self.network.junctions.values()))
        observation = random_observation(junction, source)
        query = ActionQuery(junction.id, observation, None, made_up(junction, observation))
        return await self._decide(query, names)

    async def _decide(self, query: ActionQuery, names: Names) -> Answer:
        run, key, request_id = names
        junction_id = query.junction_id
        step = Step(run, junction_id, query.obs, key, request_id, CURRENT.get())
        action, members = await self._choose(query, step)
        if self._guard is not None and query.shown is not None:
            action, members["safety"] = self._guard.decide(junction_id, query.shown, action)
        signal = signal_of(action)
        self.counts.actions[self._labels[junction_id], signal] += 1
        # of an ActionResponse, those that are set: the model would double the rendering time
        answer = {
            "junctionId": junction_id,
            "predictedAction": action,
            "signalState": signal,
            "timestamp": now_ms(),
            **members,
        }
        return 200, to_json(answer), JSON_HEADERS

    async def _choose(self, query: ActionQuery, step: Step) -> tuple[int, dict[str, Any]]:
        """Return the action of the policy or of the fallback, and the members that say whose it is.

        A plan is preferred to a decision that was made without any detector.
        """
        members: dict[str, Any] = {"status": "success"}
        started = time.perf_counter()
        try:
            action, failed = await self._inference.act(step)
            self.counts.latencies_s.observe(time.perf_counter() - started)
            if failed:
                members["failedDetectors"] = dict(failed)
            n_lanes = self.network.junctions[query.junction_id].n_lanes
            if len(failed) == n_lanes and self._fallback.has_plan:
                raise InferenceUnavailableError("detectors_failed", "all detectors have failed")
        except InferenceUnavailableError as error:
            action, plan = self._without_policy(query, step.run, error) or (0, None)
            members["status"] = FALLBACK_STATUS
            if plan is not None:
                members["fallbackPlan"] = plan
        return action, members

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

    async def reset(self, scope: Scope, body: bytes) -> Answer:
        """Clear the hidden states of all junctions.

        A request that is repeated with its `Idempotency-Key` clears nothing more.
        """
        if scope["query_string"] or b"".join(body.split()) not in _NOTHING:
            raise BadRequestError(_TAKES_NOTHING)
        names = read_names(scope)
        who, where = self.access.authenticate(scope, "reset").subject, client_address(scope)
        detail = f"run {names.run or DEFAULT_RUN}"
        try:
            await self._inference.reset(*names)
        except InferenceUnavailableError as error:
            self.access.audit.note("reset", who, where, f"{detail}, not confirmed")
            raise UnavailableError("The inference service did not confirm the reset") from error
        self.access.audit.note("reset", who, where, detail)
        return 200, to_json(ResetResponse()), JSON_HEADERS

    async def health(self, scope: Scope, body: bytes) -> Answer:
        """Return whether the inference service answers and is healthy."""
        healthy = await self._health.result()  # simultaneous requests share a call
        answer = HealthResponse(
            status="healthy" if healthy else "degraded",
            inferenceService="up" if healthy else "down",
            timestamp=now_ms(),
        )
        return 200 if healthy else 503, to_json(answer), JSON_HEADERS

    async def close(self) -> None:
        self._health.cancel()
        await self._inference.close()
        await self._logins.close()
