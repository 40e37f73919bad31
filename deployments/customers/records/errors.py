"""Errors of record services, in the three forms of the contract.

RecordError                  error response: apiPath, errorCode, errorMessage, errortime
├── AlreadyRegistered        400
├── RecordNotFound           404
├── InvalidMobileNumber      500, as documented, although the fault is the caller's
├── RecordsUnavailable       503, with Retry-After
└── UnexpectedError          500
InvalidFields                validation error response: field -> message
MissingParameter             400, application/problem+json (RFC 9457), like bodies too slow or large
MalformedBody                400, likewise
UnsupportedContentType       415, likewise
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from deployments.http.errors import RefusedError


class RecordError(RefusedError):
    """The request was understood and cannot be fulfilled."""

    status: HTTPStatus
    outcome: str
    """How metrics call it."""


class AlreadyRegistered(RecordError):
    """The mobile number belongs to another record."""

    status = HTTPStatus.BAD_REQUEST
    outcome = "duplicate"


class RecordNotFound(RecordError):
    """No record has the mobile number, or the record's own number."""

    status = HTTPStatus.NOT_FOUND
    outcome = "not_found"


class InvalidMobileNumber(RecordError):
    """The mobile number of a query is not ten digits."""

    status = HTTPStatus.INTERNAL_SERVER_ERROR
    outcome = "invalid"

    def __init__(self, operation: str) -> None:
        super().__init__(f"{operation}.mobileNumber: Mobile number must be 10 digits")


class RecordsUnavailable(RecordError):
    """The store cannot serve now; a write may have been applied or not."""

    status = HTTPStatus.SERVICE_UNAVAILABLE
    outcome = "unavailable"
    retry_after_s = 1


class UnexpectedError(RecordError):
    """A defect."""

    status = HTTPStatus.INTERNAL_SERVER_ERROR
    outcome = "failed"

    def __init__(self) -> None:
        super().__init__("An unexpected error occurred")


class InvalidFields(Exception):
    """Fields of a body break their rules.

    Args:
        messages: by dotted field name.
    """

    def __init__(self, messages: Mapping[str, str]) -> None:
        super().__init__(f"invalid: {', '.join(messages)}")
        self.messages = messages


class MissingParameter(RefusedError):
    """A query parameter is missing."""

    status = HTTPStatus.BAD_REQUEST

    def __init__(self, name: str) -> None:
        super().__init__(f"Required parameter '{name}' is not present.")


class MalformedBody(RefusedError):
    """The body is not a JSON object, or one of its fields has the wrong JSON type."""

    status = HTTPStatus.BAD_REQUEST

    def __init__(self) -> None:
        super().__init__("Failed to read request")


class UnsupportedContentType(RefusedError):
    """The body is not declared as JSON."""

    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE

    def __init__(self, content_type: str) -> None:
        super().__init__(f"Content-Type '{content_type}' is not supported.")
