"""What every service can refuse a request for.

RefusedError                the base of the services' own refusals, too
├── UnauthorizedError       401, with WWW-Authenticate
├── ForbiddenError          403, with WWW-Authenticate
├── BodyTooSlowError        408
├── BodyTooLargeError       413
├── UncheckedError          503, with Retry-After
└── OverloadedError         503, with Retry-After
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.types import Scope

from deployments.http.messages import JSON, Answer

Code = Literal["model_not_loaded", "overloaded", "too_many_states", "key_reused", "outcome_unknown"]
"""For programs: why, where the status leaves it open."""

CODE_HEADER = "X-Error-Code"

_BODY_REFUSED = {
    408: "The request body did not arrive in time",
    413: "The request body is too large",
}


class RefusedError(Exception):
    """A request that is not fulfilled; ``str(error)`` tells the client why.

    Attributes:
        status: of the HTTP answer.
        retry_after_s: after which the same request may succeed.
        code: tells programs apart what has one status.
        subject: whose request it was, where that is known; not for the answer.
    """

    status: int = 500
    retry_after_s: int | None = None
    code: Code | None = None
    subject: str = ""


class UnauthorizedError(RefusedError):
    """No valid token, or wrong credentials."""

    status = 401


class ForbiddenError(RefusedError):
    """The token is valid, and does not allow this.

    Attributes:
        scope: that it would need.
    """

    status = 403

    def __init__(self, scope: str) -> None:
        super().__init__(f"The token does not have the scope '{scope}'")
        self.scope = scope


class UncheckedError(RefusedError):
    """Nobody can say at present whether the token was revoked."""

    status = 503
    retry_after_s = 1

    def __init__(self) -> None:
        super().__init__("Whether the token was revoked cannot be checked at the moment")


class BodyTooSlowError(RefusedError):
    status = 408

    def __init__(self) -> None:
        super().__init__("The request body did not arrive in time")


class BodyTooLargeError(RefusedError):
    status = 413

    def __init__(self, limit: int) -> None:
        super().__init__(f"The request body is larger than {limit} bytes")
        self.limit = limit


class OverloadedError(RefusedError):
    """As many requests are at work as the service takes on."""

    status = 503
    retry_after_s = 1
    code = "overloaded"

    def __init__(self) -> None:
        super().__init__("Too many requests are waiting")


def challenge(error: Exception) -> str | None:
    """Return the WWW-Authenticate header of a refusal that has one (RFC 6750, section 3)."""
    match error:
        case UnauthorizedError():
            return "Bearer"
        case ForbiddenError():
            return f'Bearer error="insufficient_scope", scope="{error.scope}"'
    return None


def declared_errors(
    body: type[BaseModel], descriptions: Mapping[int, str], *statuses: int
) -> dict[int | str, dict[str, Any]]:
    """Declare the errors of an operation, for FastAPI's ``responses``.

    Args:
        body: the one form that they have.
        descriptions: by status; 408 and 413 are known.
    """
    known = {**_BODY_REFUSED, **descriptions}
    return {status: {"model": body, "description": known[status]} for status in statuses}


logger = logging.getLogger("ray.serve")

_RAW_CODE_HEADER = CODE_HEADER.lower().encode()
_CODES_IN_BODIES: tuple[Code, ...] = ("key_reused", "outcome_unknown")


class ErrorBody(BaseModel):
    detail: str


def render_error(scope: Scope, error: Exception) -> Answer:
    """Render an error as ``{"detail": …}``, and tell nothing of a defect but that it is one."""
    headers, body = [JSON], {}
    match error:
        case RefusedError():
            status, body["detail"] = error.status, str(error)
            if error.retry_after_s is not None:
                headers.append((b"retry-after", b"%d" % error.retry_after_s))
            if error.code is not None:
                headers.append((_RAW_CODE_HEADER, error.code.encode()))
            if error.code in _CODES_IN_BODIES:
                body["code"] = error.code
            if (wanted := challenge(error)) is not None:
                headers.append((b"www-authenticate", wanted.encode()))
        case HTTPException():
            status, body["detail"] = error.status_code, error.detail
        case _:
            logger.error("A request failed", exc_info=error)
            status, body["detail"] = 500, "Internal Server Error"
    return status, json.dumps(body).encode(), headers


def declared_detail_errors(
    descriptions: Mapping[int, str], *statuses: int
) -> dict[int | str, dict[str, Any]]:
    """Declare the errors of an operation; those of 503 bear a code.

    Args:
        descriptions: by status; 408 and 413 are known.
    """
    errors = declared_errors(ErrorBody, descriptions, *statuses)
    if 503 in errors:
        errors[503]["headers"] = declared_code("model_not_loaded", "overloaded")
    return errors


def declared_code(*codes: Code) -> dict[str, Any]:
    """Declare the header that tells programs why, for FastAPI's ``responses``."""
    schema = {"type": "string", "enum": list(codes)}
    return {CODE_HEADER: {"description": "Why, for programs.", "schema": schema}}
