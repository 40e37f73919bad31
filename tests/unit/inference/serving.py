"""Services with set outcomes, and clients without a network."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import httpx

from deployments.inference.errors import TooManyValuesError, UnknownJunctionError
from deployments.inference.service import InferenceService
from deployments.stateful.replica.queues import StepResult
from models.networks.shipped import JUNCTIONS, MAX_OBS, SHIPPED

Outcome = StepResult | Exception | None
"""Of a step or a reset; None never comes."""

STEP = StepResult((1, 0.5), 7)


def client_of(app: Any, **options: Any) -> httpx.AsyncClient:
    """Return a client of an application in this event loop.

    Args:
        options: of the transport.
    """
    transport = httpx.ASGITransport(app, **options)
    return httpx.AsyncClient(transport=transport, base_url="http://inference")


class FakeService(InferenceService):
    """Refuses invalid requests, and answers the others with set outcomes.

    Args:
        outcomes: of the first steps or resets, in order. The last one is repeated.

    Attributes:
        request_ids: the idempotency keys of the steps.
        steps: their futures.
    """

    def __init__(self, *outcomes: Outcome) -> None:
        self.network = SHIPPED
        primary = SimpleNamespace(slot=SimpleNamespace(model=None))
        policies = SimpleNamespace(loaded=True, problem=None, at_capacity=False, primary=primary)
        self.policies = policies  # type: ignore[assignment]
        self.engine = SimpleNamespace(connected=True, reset=self._outcome)  # type: ignore[assignment]
        self.request_ids: list[str | None] = []
        self.steps: list[asyncio.Future[StepResult]] = []
        self.outcomes: list[Outcome] = [*outcomes] or [STEP]

    def predict(
        self, run: str, junction_id: str, obs: list[float], **options: Any
    ) -> asyncio.Future[StepResult]:
        if junction_id not in JUNCTIONS:
            raise UnknownJunctionError(junction_id, self.network)
        if len(obs) > MAX_OBS:
            raise TooManyValuesError(len(obs), self.network)
        self.request_ids.append(options.get("request_id"))
        self.steps.append(self._outcome(run))
        return self.steps[-1]

    def _outcome(self, run: str) -> asyncio.Future[StepResult]:
        future: asyncio.Future[StepResult] = asyncio.get_running_loop().create_future()
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, Exception):
            future.set_exception(outcome.with_traceback(None))  # or it would grow
        elif outcome is not None:
            future.set_result(outcome)
        return future
