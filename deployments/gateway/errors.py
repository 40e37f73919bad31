"""What a request to the gateway can be refused for.

GatewayError
├── BadRequestError          400
├── UnauthorizedError        401, with WWW-Authenticate
├── TooManyLoginsError       429, with Retry-After
└── UnavailableError         503, with Retry-After
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import ClassVar

WWW_AUTHENTICATE = {"WWW-Authenticate": "Bearer"}


class GatewayError(Exception):
    """A refusal; ``str(error)`` is the ``message`` of the answer."""

    status: ClassVar[int]

    @property
    def headers(self) -> Mapping[str, str]:
        return {}


class BadRequestError(GatewayError):
    """The request breaks a rule, which the message names."""

    status = 400


class UnauthorizedError(GatewayError):
    """No valid token, or wrong credentials."""

    status = 401

    @property
    def headers(self) -> Mapping[str, str]:
        return WWW_AUTHENTICATE


class _LaterError(GatewayError):
    """The same request may succeed after ``retry_after_s``."""

    def __init__(self, message: str, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self._retry_after_s = retry_after_s

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Retry-After": str(self._retry_after_s)}


class TooManyLoginsError(_LaterError):
    """A user name or an address has used up its attempts of this minute."""

    status = 429


class UnavailableError(_LaterError):
    """Too much load, or something that the gateway needs does not answer."""

    status = 503


def now_ms() -> int:
    """Milliseconds since the Unix epoch, the form of every timestamp here."""
    return time.time_ns() // 1_000_000


def error_body(message: str) -> dict[str, str | int]:
    """The one form of all errors."""
    return {"status": "error", "message": message, "timestamp": now_ms()}
