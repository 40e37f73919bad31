"""Services with set outcomes, and clients without a network."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import httpx

from deployments.inference.policy_model import NonFiniteStateError, state_width
from deployments.inference.service import InferenceService
from deployments.stateful.calls import RowOutcomes, Rows, StepResult
from deployments.stateful.errors import KeyReusedError
from deployments.stateful.row import Key, id_of
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
        ids: digests of the idempotency keys of the steps, 0 for none.
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
            variant_of=lambda run: SimpleNamespace(batcher=self, states=""),
            batchers_of=lambda keys, rows: [(self, rows)],
        )
        self.policies = policies  # type: ignore[assignment]
        answers: dict[str, Any] = {"runs": [], "read": {}, "write": {}, "fork": {}}
        answers |= dict.fromkeys(("reset", "done", "find"))
        of_runs = {name: self._answering(answer) for name, answer in answers.items()}
        self.engine = SimpleNamespace(connected=True, **of_runs)  # type: ignore[assignment]
        self.ids: list[int] = []
        self.steps: list[asyncio.Future[StepResult]] = []
        self.rows: list[RowOutcomes] = []
        self.outcomes: list[Outcome] = [*outcomes] or [STEP]

    def submit(
        self, key: Key, input: Any, request_id: str | None, print: int
    ) -> asyncio.Future[StepResult]:
        """Answer as the batcher of each run."""
        self.ids.append(0 if request_id is None else id_of(request_id))
        self.steps.append(self._outcome())
        return self.steps[-1]

    def submit_rows(self, rows: Rows, numbers: Sequence[int], outcomes: RowOutcomes) -> None:
        """Answer as the batcher of each run."""
        self.rows.append(outcomes)
        for number in numbers:
            self.ids.append(0 if rows.ids is None else int(rows.ids[number]))
            step = self._outcome()
            if step.done():
                error = step.exception()
                if error is None:
                    outcomes.set([number], [step.result().output], [step.result().step])
                else:
                    assert isinstance(error, Exception)
                    outcomes.fail((number,), error)

    def _answering(self, answer: Any) -> Any:
        async def work(*arguments: Any, **named: Any) -> Any:
            with suppress(KeyReusedError, NonFiniteStateError):  # of steps alone
                await self._outcome()
            return named.get("result", answer)

        return work

    def _outcome(self) -> asyncio.Future[StepResult]:
        future: asyncio.Future[StepResult] = asyncio.get_running_loop().create_future()
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, Exception):
            future.set_exception(outcome.with_traceback(None))  # or it would grow
        elif outcome is not None:
            future.set_result(outcome)
        return future
