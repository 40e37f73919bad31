"""Refusals that every service has, and errors in FastAPI's form, ``{"detail": …}``.

RefusedError                any status; callers catch the subclasses, some of which services define
├── UnauthorizedError       401, with WWW-Authenticate
├── ForbiddenError          403, with WWW-Authenticate
├── BodyTooSlowError        408
├── BodyTooLargeError       413
└── OverloadedError         503, with Retry-After

Where one status has several reasons, a code in a header names the reason for programs: the form of
the body is part of the contract. Codes about idempotency keys are in the body as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.types import Scope

from deployments.http.messages import JSON, Answer, retry_after
from deployments.log import logger

Code = Literal["model_not_loaded", "overloaded", "too_many_states", "key_reused", "outcome_unknown"]
CODE_HEADER = "X-Error-Code"

_RAW_CODE_HEADER = CODE_HEADER.lower().encode()
_CODES_IN_BODIES: tuple[Code, ...] = ("key_reused", "outcome_unknown")
_BODY_REFUSED = {
    408: "The request body did not arrive in time",
    413: "The request body is too large",
}


class RefusedError(Exception):
    """A request that is not fulfilled; ``str(error)`` is the reason for the client.

    Args:
        status, code, retry_after_s: instead of those of the class.

    Attributes:
        status: of the HTTP response.
        retry_after_s: after which the same request may succeed.
        challenge: value of WWW-Authenticate (RFC 6750, section 3).
        code: the reason, for programs.
        subject: whose request it was, if that is known; not for the response.
    """

    status: int = 500
    retry_after_s: int | None = None
    challenge: str | None = None
    code: Code | None = None
    subject: str = ""

    def __init__(
        self,
        message: str,
        status: int | None = None,
        code: Code | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status or self.status
        self.code = code or self.code
        self.retry_after_s = retry_after_s or self.retry_after_s


class UnauthorizedError(RefusedError):
    """No valid token, or wrong credentials."""

    status = 401
    challenge = "Bearer"


class ForbiddenError(RefusedError):
    """The token is valid, but lacks a scope."""

    status = 403

    def __init__(self, scope: str) -> None:
        super().__init__(f"The token does not have the scope '{scope}'")
        self.challenge = f'Bearer error="insufficient_scope", scope="{scope}"'


class BodyTooSlowError(RefusedError):
    status = 408

    def __init__(self) -> None:
        super().__init__("The request body did not arrive in time")


class BodyTooLargeError(RefusedError):
    status = 413

    def __init__(self, limit: int) -> None:
        super().__init__(f"The request body is larger than {limit} bytes")


class OverloadedError(RefusedError):
    """As many requests are at work as the service admits."""

    status = 503
    retry_after_s = 1
    code = "overloaded"

    def __init__(self) -> None:
        super().__init__("Too many requests are waiting")


def describe_error(error: Exception, defect: str) -> tuple[int, str, list[tuple[bytes, bytes]]]:
    """Return status, message and headers of the response to an error, and log a defect.

    Args:
        defect: the message of every error that is neither a refusal nor an HTTPException.
    """
    headers = [JSON]
    match error:
        case RefusedError():
            headers += retry_after(error.retry_after_s)
            if error.challenge is not None:
                headers.append((b"www-authenticate", error.challenge.encode()))
            return error.status, str(error), headers
        case HTTPException():
            return error.status_code, error.detail, headers
        case _:
            logger.error("A request failed", exc_info=error)
            return 500, defect, headers


def render_error(scope: Scope, error: Exception) -> Answer:
    """Render an error as ``{"detail": …}``."""
    status, detail, headers = describe_error(error, "Internal Server Error")
    body = {"detail": detail}
    if isinstance(error, RefusedError) and error.code is not None:
        headers.append((_RAW_CODE_HEADER, error.code.encode()))
        if error.code in _CODES_IN_BODIES:
            body["code"] = error.code
    return status, json.dumps(body).encode(), headers


class ErrorBody(BaseModel):
    detail: str


def declared_errors(
    body: type[BaseModel], descriptions: Mapping[int, str], *statuses: int
) -> dict[int | str, dict[str, Any]]:
    """Declare the errors of an operation, for FastAPI's ``responses``.

    Args:
        body: their form.
        descriptions: by status; those of 408 and 413 are known.
    """
    known = {**_BODY_REFUSED, **descriptions}
    return {status: {"model": body, "description": known[status]} for status in statuses}


def declared_detail_errors(
    descriptions: Mapping[int, str], *statuses: int
) -> dict[int | str, dict[str, Any]]:
    """Declare errors in FastAPI's form; those of 503 have a code."""
    errors = declared_errors(ErrorBody, descriptions, *statuses)
    if 503 in errors:
        errors[503]["headers"] = declared_code("model_not_loaded", "overloaded")
    return errors


def declared_code(*codes: Code) -> dict[str, Any]:
    """Declare the header with the code, for FastAPI's ``responses``."""
    schema = {"type": "string", "enum": list(codes)}
    return {CODE_HEADER: {"description": "Why, for programs.", "schema": schema}}
