"""``/livez`` and ``/readyz``: liveness and readiness of a replica.

A replica is alive while it answers and its background tasks run; one that is not must be replaced.
It is ready while it has all that its work needs. Most of that, such as the store, all replicas
share, so an unready replica is no worse than another. ``docs/monitoring.md`` says who may use it.
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

PERIOD_S = 1.0  # a younger result is returned again
PATIENCE_S = 0.5  # for a new result, while the last one is younger than OLD_S
OLD_S = 10.0
DEADLINE_S = 2.0  # of one attempt; the stores give up earlier
ATTEMPTS = 2  # one slow call or one lost connection is no failure
PAUSE_S = 0.2  # between two attempts

OK = "ok"
_NO_CHECKS: Mapping[str, Any] = MappingProxyType({})


class Check(NamedTuple):
    """Something that a replica needs to be ready.

    Attributes:
        holds: returns False, raises an error or takes too long when it is missing.
        failure: the message that says so, without addresses: every client may read it.
        required: otherwise the replica is ready without it, and the message is a warning.
    """

    holds: Callable[[], Any]
    failure: str
    required: bool = True


class Readable(Protocol):
    """The part of a store that is checked."""

    async def get(self, table: str, key: str) -> bytes | None: ...


def store_check(store: Readable) -> Check:
    """Return the check that reads from a store."""
    return Check(lambda: store.get("readiness", "probe"), "The store does not serve.")


async def _outcome(check: Check) -> str:
    for attempt in range(ATTEMPTS):
        if attempt:
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
    return check.failure


class LivezBody(BaseModel):
    """Liveness of one process."""

    status: Literal["alive", "dead"]
    checks: dict[str, str] = Field(description="By name, `ok` or a sentence that says otherwise.")


class ReadyzBody(BaseModel):
    """Readiness of one replica, with what it needs."""

    status: Literal["ready", "not ready"]
    checks: dict[str, str] = Field(description="By name, `ok` or a sentence that says otherwise.")


class Probes:
    """The two probes of a replica. Their handlers' docstrings are those of the OpenAPI document.

    All checks run when a client asks, at most once in a period. A client that asks meanwhile waits
    for a moment, and then gets the result before: a store that hangs delays no probe.

    Args:
        check_health: raises an error when a background task has stopped; the message says which.
        checks: what the replica needs to be ready.
    """

    def __init__(
        self,
        check_health: Callable[[], object] = lambda: None,
        checks: Mapping[str, Check] = _NO_CHECKS,
    ) -> None:
        self._check_health = check_health
        self._checks = checks
        self._results: dict[str, str] = {}
        self._checked_at = -math.inf
        self._running = SingleFlight(self._run_checks)

    async def results(self) -> Mapping[str, str]:
        """Return ``ok`` or the failure, by check."""
        age_s = asyncio.get_running_loop().time() - self._checked_at
        if age_s >= PERIOD_S:
            patience_s = PATIENCE_S if age_s < OLD_S else None
            await asyncio.wait([self._running.start()], timeout=patience_s)
        return self._results

    async def _run_checks(self) -> None:
        outcomes = await asyncio.gather(*map(_outcome, self._checks.values()))
        self._results = dict(zip(self._checks, outcomes, strict=True))
        self._checked_at = asyncio.get_running_loop().time()

    async def livez(self, scope: Scope, body: bytes) -> Answer:
        """Return whether the process answers and its background tasks run."""
        outcome = OK
        try:
            self._check_health()
        except Exception as error:
            outcome = str(error)
        answer = LivezBody(
            status="alive" if outcome == OK else "dead", checks={"background_tasks": outcome}
        )
        return _answer(answer, outcome == OK)

    async def readyz(self, scope: Scope, body: bytes) -> Answer:
        """Return whether this replica has all that its work needs, as of the last second."""
        checks = await self.results()
        ready = all(
            outcome == OK or not self._checks[name].required for name, outcome in checks.items()
        )
        answer = ReadyzBody(status="ready" if ready else "not ready", checks=dict(checks))
        return _answer(answer, ready)

    def add_to(self, routes: FastRoutes, prefix: str = "", *, documented: bool = True) -> None:
        """Add both below a prefix, uncounted: overload must not look like a dead process."""
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


def _answer(body: BaseModel, succeeded: bool) -> Answer:
    return 200 if succeeded else 503, body.model_dump_json().encode(), JSON_HEADERS
