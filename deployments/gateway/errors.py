"""What a request to the gateway can be refused for.

GatewayError
├── BadRequestError          400
│   └── KeyReusedError       422
├── TooManyLoginsError       429, with Retry-After
└── UnavailableError         503, with Retry-After
"""

from __future__ import annotations

import time

from deployments.http.errors import RefusedError


class GatewayError(RefusedError):
    """A refusal; ``str(error)`` is the ``message`` of the answer."""


class BadRequestError(GatewayError):
    """The request breaks a rule, which the message names."""

    status = 400


class KeyReusedError(BadRequestError):
    """The idempotency key is that of a request with other observations."""

    status = 422


class TooManyLoginsError(GatewayError):
    """A user name or an address has used up its attempts of this minute."""

    status = 429

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class UnavailableError(GatewayError):
    """Too many logins, or something that the gateway needs does not answer."""

    status = 503
    retry_after_s = 1


def now_ms() -> int:
    """Return the milliseconds since the Unix epoch, the form of every timestamp here."""
    return time.time_ns() // 1_000_000


def error_body(message: str) -> dict[str, str | int]:
    """Return the one form that all errors have."""
    return {"status": "error", "message": message, "timestamp": now_ms()}
