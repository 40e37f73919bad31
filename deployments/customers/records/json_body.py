"""Strict JSON bodies: everything but a plain JSON object is refused."""

from __future__ import annotations

import json
from typing import Any

from starlette.types import Scope

from deployments.customers.records.errors import MalformedBody
from deployments.http.errors import RefusedError
from deployments.http.request import header

MAX_BODY_BYTES = 64 * 1024
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


def check_content_type(scope: Scope) -> None:
    """Check that a body, if its type is declared, is declared as JSON.

    Raises:
        RefusedError: it is not.
    """
    declared = header(scope, b"content-type")
    if declared is not None and not _is_json(declared):
        raise _unsupported(declared)


def read_json_object(scope: Scope, body: bytes) -> dict[str, Any]:
    """Return the members of the JSON object that is a request's body.

    Raises:
        RefusedError: the body has no declared type.
        MalformedBody: the body is not a JSON object.
    """
    if body and header(scope, b"content-type") is None:
        raise _unsupported("application/octet-stream")  # RFC 9110, section 8.3
    return parse_json_object(body)


def parse_json_object(body: bytes) -> dict[str, Any]:
    """Read the members of a JSON object in UTF-8.

    Beyond the grammar, it refuses NaN and Infinity, integers beyond 64 bits, lone surrogates,
    duplicate members (readers disagree about which counts) and too deep nesting.

    Raises:
        MalformedBody: the text is not such an object.
    """
    try:
        value = json.loads(
            body.decode("utf-8"),
            parse_int=_int64,
            parse_constant=_refuse,
            object_pairs_hook=_distinct,
        )
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # a lone surrogate fails
    except (ValueError, RecursionError):
        raise MalformedBody from None
    if not isinstance(value, dict):
        raise MalformedBody
    return value


def _unsupported(content_type: str) -> RefusedError:
    return RefusedError(f"Content-Type '{content_type}' is not supported.", 415)


def _is_json(content_type: str) -> bool:
    media_type = content_type.partition(";")[0].strip().lower()
    kind, _, subtype = media_type.partition("/")
    return kind == "application" and (subtype == "json" or subtype.endswith("+json"))


def _int64(text: str) -> int:
    number = int(text)
    if not INT64_MIN <= number <= INT64_MAX:
        raise ValueError("an integer beyond 64 bits")
    return number


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _distinct(members: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(members)
    if len(result) != len(members):
        raise ValueError("a member is given twice")
    return result
