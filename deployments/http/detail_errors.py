"""Errors in FastAPI's own form, ``{"detail": …}``: of the inference service and the forecasts.

A program that must know why an answer is 503 finds a code in a header: the form of the body is part
of the contract. What only a client with an idempotency key asks about is in the body as well.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.types import Scope

from deployments.http.answers import JSON, Answer
from deployments.http.errors import CODE_HEADER, Code, RefusedError, challenge, declared_errors

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
