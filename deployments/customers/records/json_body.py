"""The body of a request, read strictly: what is not plainly one JSON object is refused."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from fastapi import Request
from starlette.requests import ClientDisconnect

from deployments.customers.records.errors import (
    BodyTooLarge,
    BodyTooSlow,
    MalformedBody,
    UnsupportedContentType,
)
from deployments.http.request import BODY_TIMEOUT_S

MAX_BODY_BYTES = 64 * 1024
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


async def read_json_object(request: Request) -> dict[str, Any]:
    """The members of the JSON object that is the request's body.

    Raises:
        UnsupportedContentType: the body is declared as something else, or not declared.
        BodyTooLarge: it is longer than MAX_BODY_BYTES.
        BodyTooSlow: it did not arrive in BODY_TIMEOUT_S seconds.
        MalformedBody: it is no JSON object.
    """
    declared = request.headers.get("content-type")
    if declared is not None and not _is_json(declared):
        raise UnsupportedContentType(declared)
    body = await _read(request)
    if declared is None and body:
        raise UnsupportedContentType("application/octet-stream")  # RFC 9110, section 8.3
    return parse_json_object(body)


def parse_json_object(body: bytes) -> dict[str, Any]:
    """The members of a JSON object in UTF-8.

    Beyond the grammar it refuses NaN and Infinity, integers beyond 64 bits, lone surrogates, a
    member given twice (readers disagree about which counts), and nesting too deep to read.

    Raises:
        MalformedBody: any of these.
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


def _is_json(content_type: str) -> bool:
    media_type = content_type.partition(";")[0].strip().lower()
    kind, _, subtype = media_type.partition("/")
    return kind == "application" and (subtype == "json" or subtype.endswith("+json"))


async def _read(request: Request) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise BodyTooLarge(MAX_BODY_BYTES)
    except TimeoutError:
        raise BodyTooSlow from None
    except ClientDisconnect:
        raise MalformedBody from None  # nobody is there to read the answer
    return bytes(body)


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
