"""The access log: a line for a share of the requests, and for failures within a rate limit.

A request costs a look at the clock and a comparison. All else that a line needs is read when it is
written, after the response.
"""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from starlette.types import Scope

from deployments.http.messages import RAW_RUN_HEADER, is_name
from deployments.http.request import header
from deployments.log import about, logger

FAILURES_PERIOD_S = 1.0
MAX_PARSED = 64 * 1024  # bytes of a body in which the run and the junction are looked for
_MAX_PATH = 200  # characters

_RUN = ("run_id",)
_JUNCTION = ("junction_id", "junctionId")


class AccessLog:
    """Selects the responses that get a line, and writes it.

    Responses of 500 and above get at most one line a second, which counts those left out.

    Args:
        share: of all other responses, from 0 to 1.
        clock: in seconds.
    """

    def __init__(
        self,
        share: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._share = share
        self._clock = clock
        self._draw = draw
        self._next_failure_at = float("-inf")
        self._left_out = 0

    def note(self, scope: Scope, body: bytes, status: int, seconds: float) -> None:
        """Write a line about a response, if it is selected.

        Args:
            body: of the request, as far as it was read.
            seconds: from the request to its response.
        """
        if status < 500:
            if self._share and self._draw() < self._share:
                self._write(scope, body, status, seconds)
        elif (now := self._clock()) >= self._next_failure_at:
            self._next_failure_at = now + FAILURES_PERIOD_S
            left_out, self._left_out = self._left_out, 0
            self._write(scope, body, status, seconds, left_out)
        else:
            self._left_out += 1

    def _write(
        self, scope: Scope, body: bytes, status: int, seconds: float, left_out: int = 0
    ) -> None:
        fields = {
            "method": scope["method"],
            "path": quote(scope["path"][:_MAX_PATH], safe="/:"),  # a line must stay one line
            "status": status,
            "ms": round(seconds * 1000, 2),
        }
        more = f", and {left_out} failures before" if left_out else ""
        extra = {**fields, "left_out": left_out, **about(**_subject(scope, body))}
        logger.info("%s %s %d in %.2f ms%s", *fields.values(), more, extra=extra)


def _subject(scope: Scope, body: bytes) -> dict[str, str | None]:
    """Return the run and the junction of a request, where they are valid names."""
    members: Any = None
    if 0 < len(body) <= MAX_PARSED:
        with contextlib.suppress(ValueError, RecursionError):
            members = json.loads(body)
    if not isinstance(members, dict):
        members = {}
    run = header(scope, RAW_RUN_HEADER) or _named(members, _RUN)
    return {
        "run": run if run is not None and is_name(run) else None,
        "junction": _named(members, _JUNCTION),
    }


def _named(members: dict[str, Any], names: tuple[str, ...]) -> str | None:
    values = (members.get(name) for name in names)
    return next((each for each in values if isinstance(each, str) and is_name(each)), None)
