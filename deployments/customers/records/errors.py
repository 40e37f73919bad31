"""Errors of record services, in the three forms of the contract.

RecordError                  error response: apiPath, errorCode, errorMessage, errortime
└── RecordsUnavailable       503, with Retry-After
InvalidFields                validation error response: field -> message
any other RefusedError       application/problem+json (RFC 9457)
└── MalformedBody            400
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from deployments.http.errors import RefusedError

INVALID = "invalid"


class RecordError(RefusedError):
    """The request was understood and cannot be fulfilled.

    Attributes:
        outcome: how metrics call it.
    """

    def __init__(self, message: str, status: HTTPStatus, outcome: str) -> None:
        super().__init__(message, status)
        self.outcome = outcome


class RecordsUnavailable(RecordError):
    """The store cannot serve now; a write may have been applied or not."""

    OUTCOME = "unavailable"
    retry_after_s = 1

    def __init__(self, message: str) -> None:
        super().__init__(message, HTTPStatus.SERVICE_UNAVAILABLE, self.OUTCOME)


class InvalidFields(Exception):
    """Fields of a body break their rules.

    Args:
        messages: by dotted field name.
    """

    def __init__(self, messages: Mapping[str, str]) -> None:
        super().__init__(f"invalid: {', '.join(messages)}")
        self.messages = messages


class MalformedBody(RefusedError):
    """The body is not a JSON object, or one of its fields has the wrong JSON type."""

    def __init__(self) -> None:
        super().__init__("Failed to read request", HTTPStatus.BAD_REQUEST)
