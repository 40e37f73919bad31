"""Services with set outcomes, and clients without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import httpx

from deployments.inference.policy_model import state_width
from deployments.inference.service import InferenceService
from deployments.stateful.protocol import Key
from deployments.stateful.replica.queues import StepResult
from deployments.stateful.replica.rows import RowOutcomes, RowResponse, Rows
from models.networks.shipped import SHIPPED

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
        steps: the futures of single steps.
        rows: the outcomes of calls with several.
    """

    def __init__(self, *outcomes: Outcome) -> None:
        self.network = SHIPPED
        self.state_width = state_width(None)
        self._junctions, self._max_obs = SHIPPED.junctions, SHIPPED.max_obs
        policies = SimpleNamespace(
            loaded=True,
            problem=None,
            at_capacity=False,
            primary=SimpleNamespace(slot=SimpleNamespace(model=None)),
            batcher_of=lambda run: self,
            batchers_of=lambda keys, rows: [(self, rows)],
            states_of=lambda run: "",
        )
        self.policies = policies  # type: ignore[assignment]
        of_runs = dict.fromkeys(("runs", "read", "write"), self._of_runs)
        engine = SimpleNamespace(connected=True, reset=self._outcome, **of_runs)
        self.engine = engine  # type: ignore[assignment]
        self.request_ids: list[str | None] = []
        self.steps: list[asyncio.Future[StepResult]] = []
        self.rows: list[RowOutcomes] = []
        self.outcomes: list[Outcome] = [*outcomes] or [STEP]

    def submit(
        self, key: Key, input: Any, timeout_s: float, request_id: str | None, fingerprint: str
    ) -> asyncio.Future[StepResult]:
        """Answer as the batcher of each run."""
        self.request_ids.append(request_id)
        self.steps.append(self._outcome(key.run))
        return self.steps[-1]

    def submit_rows(self, rows: Rows, numbers: Sequence[int], outcomes: RowOutcomes) -> None:
        """Answer as the batcher of each run."""
        self.rows.append(outcomes)
        for number in numbers:
            self.request_ids.append(rows.request_id(number)[0])
            step = self._outcome(rows.keys[number].run)
            if step.done():
                error = step.exception()
                if error is None:
                    RowResponse(outcomes, number).set_result(step.result())
                else:
                    assert isinstance(error, Exception)
                    outcomes.fail((number,), error)

    async def _of_runs(self, *arguments: Any) -> list[Any]:
        await self._outcome("")
        return []

    def _outcome(self, run: str) -> asyncio.Future[StepResult]:
        future: asyncio.Future[StepResult] = asyncio.get_running_loop().create_future()
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, Exception):
            future.set_exception(outcome.with_traceback(None))  # or it would grow
        elif outcome is not None:
            future.set_result(outcome)
        return future
