"""Refusals of the gateway, and failures of the inference service.

RefusedError                     ``str(error)`` is the ``message`` of the response
├── BadRequestError              400, or 422 for a reused idempotency key
└── UnavailableError             503, with Retry-After

InferenceUnavailableError        no answer of the inference service; the client gets the fallback
"""

from __future__ import annotations

import json
from typing import Literal, get_args

from starlette.types import Scope

from deployments.http.errors import RefusedError, describe_error
from deployments.http.messages import Answer, now_ms

Cause = Literal[
    "unreachable",
    "not_loaded",
    "failing",
    "overloaded",
    "too_many_states",
    "outcome_unknown",
    "too_slow",
    "unusable",
    "breaker_open",
    "detectors_failed",
]
CAUSES: tuple[Cause, ...] = get_args(Cause)


class BadRequestError(RefusedError):
    """The request breaks a rule, which the message names."""

    status = 400


class UnavailableError(RefusedError):
    """Too many logins at once, or a service that the gateway needs does not answer."""

    status = 503
    retry_after_s = 1


def render_error(scope: Scope, error: Exception) -> Answer:
    """Render an error in the gateway's one form."""
    status, message, headers = describe_error(error, "Internal server error")
    body = {"status": "error", "message": message, "timestamp": now_ms()}
    return status, json.dumps(body).encode(), headers


class InferenceUnavailableError(Exception):
    """The inference service gave no usable answer."""

    def __init__(self, cause: Cause, detail: str = "") -> None:
        super().__init__(f"{cause}: {detail}" if detail else cause)
        self.cause: Cause = cause


def error_of(
    status: int, detail: str, code: str | None = None
) -> BadRequestError | InferenceUnavailableError:
    """Return what an error answer of the inference service means.

    Args:
        code: of ``X-Error-Code``; an inference service of another maker may send none.
    """
    match status, code:
        case _, "key_reused":
            return BadRequestError(detail, 422)
        case _, "outcome_unknown":
            return InferenceUnavailableError("outcome_unknown", detail)
        case 400 | 422, _:
            return BadRequestError(detail)
        case 503, "model_not_loaded":
            return InferenceUnavailableError("not_loaded")
        case 503, "too_many_states":
            return InferenceUnavailableError("too_many_states", detail)
        case 408 | 429 | 503, _:
            return InferenceUnavailableError("overloaded", detail)
    if status >= 500:
        return InferenceUnavailableError("failing", detail)
    return InferenceUnavailableError("unusable", f"{status} {detail}")
