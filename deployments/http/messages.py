"""Answers as plain data, and the names that clients give to simulation runs and requests."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

from fastapi import Header
from pydantic.config import JsonDict
from starlette.types import Scope

Headers = Sequence[tuple[bytes, bytes]]
Answer = tuple[int, bytes, Headers]
"""Status, body, and headers without the body's length."""

Handle = Callable[[Scope, bytes], Awaitable[Answer]]
RenderError = Callable[[Scope, Exception], Answer]
SendAnswer = Callable[[int, bytes, Headers], Awaitable[None]]

JSON = (b"content-type", b"application/json")
JSON_HEADERS: Headers = (JSON,)


def retry_after(seconds: int | None) -> Headers:
    """Return the header that tells when a request may succeed, if that is known."""
    if seconds is None:
        return ()
    return ((b"retry-after", b"%d" % seconds),)


def now_ms() -> int:
    """Return the milliseconds since the Unix epoch."""
    return time.time_ns() // 1_000_000


RUN_HEADER = "X-Simulation-Run"
RAW_RUN_HEADER = RUN_HEADER.lower().encode()  # as ASGI gives it
KEY_HEADER = "Idempotency-Key"
RAW_KEY_HEADER = KEY_HEADER.lower().encode()

_NAME = "[A-Za-z0-9._:-]{1,64}"
_matches = re.compile(_NAME).fullmatch
_FORM = "1 to 64 characters of A-Z a-z 0-9 . _ : -"
NOT_A_RUN_ID = f"A run id is {_FORM}"
NOT_A_KEY = f"An idempotency key is {_FORM}"

_MISNAMED = {"run", "runid", "simulationrun", "xsimulationrun", "requestid", "idempotencykey"}


def is_misnamed(name: str) -> bool:
    """Return whether a member or parameter names a run or a key, in any spelling.

    It is refused wherever it is not a field: ignored, two simulations would share hidden states,
    and a repeated request would make a second step.
    """
    return name.lower().replace("_", "").replace("-", "") in _MISNAMED


def not_read(name: str) -> str:
    """Return the refusal of a name that :func:`is_misnamed`."""
    return (
        f"{name[:100]} is not read here. A run is named by the header {RUN_HEADER}, a key by"
        f" {KEY_HEADER}"
    )


DEFAULT_RUN = "default"
RUN_DESCRIPTION = f"Simulation run, 1 to 64 of `A-Z a-z 0-9 . _ : -`; `{DEFAULT_RUN}` when missing."
KEY_DESCRIPTION = (
    "Idempotency key, 1 to 64 of `A-Z a-z 0-9 . _ : -`: a request that is repeated with its key, "
    "for the same run and junction, gets the first answer again and changes nothing more."
)

# For the OpenAPI document only: each service refuses an invalid name in its own form of errors.
_PATTERN: JsonDict = {"pattern": f"^{_NAME}$"}
Run = Annotated[
    str | None, Header(alias=RUN_HEADER, description=RUN_DESCRIPTION, json_schema_extra=_PATTERN)
]
IdempotencyKey = Annotated[
    str | None, Header(alias=KEY_HEADER, description=KEY_DESCRIPTION, json_schema_extra=_PATTERN)
]


def is_name(text: str) -> bool:
    """Return whether a text is a valid name of a simulation run or a request."""
    return _matches(text) is not None
