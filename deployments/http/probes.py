"""``/livez`` and ``/readyz``: what orchestrators and people ask a replica, beside ``/health``.

Alive is a replica that answers and whose background tasks run; one that is not is to be replaced.
Ready is one that has all that its work needs. What others lend it, as the store, it shares with all
replicas, so a replica that is not ready is no worse than another: ``docs/operations.md`` says who
may act upon it.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

from pydantic import BaseModel, Field
from starlette.types import Scope

from deployments.aio import SingleFlight
from deployments.http.fast_routes import FastRoutes
from deployments.http.messages import JSON_HEADERS, Answer

PERIOD_S = 1.0  # a younger verdict is given again, however many ask
PATIENCE_S = 0.5  # for the next one, while there is one that is not yet OLD_S
OLD_S = 10.0
DEADLINE_S = 2.0  # of one trial; the stores give up before
TRIALS = 2  # one slow call or one lost connection says nothing
PAUSE_S = 0.2  # between them

OK = "ok"
_UNHARMED: Mapping[str, Any] = MappingProxyType({})


class Check(NamedTuple):
    """Something that a replica needs for its work.

    Attributes:
        holds: returns False, raises, or does not answer in time when it is not there.
        trouble: a sentence that says so, without addresses: it is shown to whoever asks.
    """

    holds: Callable[[], Any]
    trouble: str


class Readable(Protocol):
    """The part of a store that is asked whether it serves."""

    async def get(self, table: str, key: str) -> bytes | None: ...


def store_check(store: Readable) -> Check:
    """Return what asks a store for a document that never was."""
    return Check(lambda: store.get("readiness", "probe"), "The store does not serve.")


class Readiness:
    """Looks at all checks at once, when somebody asks, once a period at most.

    Whoever asks during a look waits for it for a moment, and is given the verdict before it after
    that: a store that hangs holds up nobody.
    """

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = checks
        self._verdict: dict[str, str] = {}
        self._looked_at = -math.inf
        self._look = SingleFlight(self._judge)

    async def verdict(self) -> Mapping[str, str]:
        """Return ``ok`` or what is wrong, by check."""
        age_s = asyncio.get_running_loop().time() - self._looked_at
        if age_s >= PERIOD_S:
            patience_s = PATIENCE_S if age_s < OLD_S else None
            await asyncio.wait([self._look.start()], timeout=patience_s)
        return self._verdict

    async def _judge(self) -> None:
        outcomes = await asyncio.gather(*map(_outcome, self._checks.values()))
        self._verdict = dict(zip(self._checks, outcomes, strict=True))
        self._looked_at = asyncio.get_running_loop().time()


async def _outcome(check: Check) -> str:
    for trial in range(TRIALS):
        if trial:
            await asyncio.sleep(PAUSE_S)
        try:
            async with asyncio.timeout(DEADLINE_S):
                answer = check.holds()
                if inspect.isawaitable(answer):
                    answer = await answer
        except Exception:  # the parts that fail have their own lines in the log
            continue
        if answer is not False:
            return OK
    return check.trouble


class LivezBody(BaseModel):
    """What is asked of a process alone."""

    status: Literal["alive", "dead"]
    checks: dict[str, str] = Field(description="By name, `ok` or a sentence that says otherwise.")


class ReadyzBody(BaseModel):
    """What is asked of a replica and of what it needs."""

    status: Literal["ready", "not ready"]
    checks: dict[str, str] = Field(description="By name, `ok` or a sentence that says otherwise.")


class Probes:
    """The two probes of one replica. Their docstrings stand in the OpenAPI document.

    Args:
        check_health: raises when a background task has died; the message says which.
        checks: what the replica needs for its work.
    """

    def __init__(
        self,
        check_health: Callable[[], object] = lambda: None,
        checks: Mapping[str, Check] = _UNHARMED,
    ) -> None:
        self._check_health = check_health
        self._readiness = Readiness(checks)

    async def livez(self, scope: Scope, body: bytes) -> Answer:
        """Tell whether the process answers and its background tasks run."""
        outcome = OK
        try:
            self._check_health()
        except Exception as error:
            outcome = str(error)
        told = LivezBody(
            status="alive" if outcome == OK else "dead", checks={"background_tasks": outcome}
        )
        return _answer(told, outcome == OK)

    async def readyz(self, scope: Scope, body: bytes) -> Answer:
        """Tell whether this replica has all that its work needs, as of the last second."""
        checks = await self._readiness.verdict()
        ready = all(outcome == OK for outcome in checks.values())
        told = ReadyzBody(status="ready" if ready else "not ready", checks=dict(checks))
        return _answer(told, ready)

    def add_to(self, routes: FastRoutes, prefix: str = "", *, documented: bool = True) -> None:
        """Answer below a prefix, however much is at work: load is no reason to end a process."""
        for handle, summary, body, otherwise in (
            (self.livez, "Alive?", LivezBody, "To be replaced"),
            (self.readyz, "Ready?", ReadyzBody, "Something that is needed is missing"),
        ):
            routes.add(
                "GET",
                f"{prefix}/{handle.__name__}",
                handle,
                counted=False,
                logged=False,
                is_open=True,
                summary=summary,
                response_model=body,
                responses={503: {"model": body, "description": otherwise}},
                tags=["status"],
                include_in_schema=documented,
            )


def _answer(told: BaseModel, well: bool) -> Answer:
    return 200 if well else 503, told.model_dump_json().encode(), JSON_HEADERS
