"""Creating, fetching, updating and deleting the records of one type."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from starlette.types import Scope

from deployments.customers.records.errors import (
    INVALID,
    InvalidFields,
    MalformedBody,
    RecordError,
    RecordsUnavailable,
)
from deployments.customers.records.json_body import read_json_object
from deployments.customers.records.record_type import Fields, Record, RecordType
from deployments.customers.records.responses import StatusResponse, json_answer
from deployments.http.errors import RefusedError
from deployments.http.messages import JSON_HEADERS, Answer
from deployments.http.request import query_of
from deployments.store import (
    Document,
    DocumentNotFound,
    DuplicateIndex,
    DuplicateKey,
    Store,
    StoreUnavailable,
)

MOBILE_NUMBER = re.compile(r"[0-9]{10}")

# One draw in a thousand meets a taken number when a thousandth of all numbers is taken.
MAX_DRAWS = 20

Observe = Callable[[str, str, float], None]
"""Called with operation, outcome and duration in milliseconds."""


def random_number(length: int) -> str:
    """Draw a number of ``length`` digits, the first of which is not zero."""
    least: int = 10 ** (length - 1)
    return str(least + secrets.randbelow(9 * least))


def document_of(record: Record) -> Document:
    """Return the stored form of a record: JSON, under its number and the mobile number."""
    return Document(record.number, record.model_dump_json().encode(), record.mobileNumber)


class RecordService:
    """Handlers of the operations on the records of one type in a store.

    Each raises a RecordError for what cannot be fulfilled, InvalidFields for fields that break
    their rules, and another RefusedError for a request that cannot be read. Their docstrings are
    those of the OpenAPI document.
    """

    def __init__(
        self,
        record_type: RecordType,
        store: Store,
        observe: Observe = lambda operation, outcome, latency_ms: None,
        draw_number: Callable[[int], str] = random_number,
    ) -> None:
        self.record_type = record_type
        self._store = store
        self._observe = observe
        self._draw_number = draw_number
        self._created = _success(HTTPStatus.CREATED, record_type.created)
        self._processed = _success(HTTPStatus.OK, "Request processed successfully")

    async def create(self, scope: Scope, body: bytes) -> Answer:
        """Create the record of a customer who has none, with a new record number."""
        takes_body = self.record_type.create_request is not None
        asked = read_json_object(scope, body) if takes_body else _mobile_number(scope)
        with self._observed("create"):
            customer = self._customer(asked)
            for _ in range(MAX_DRAWS):
                number = self._draw_number(self.record_type.number_length)
                record = self.record_type.new_record(customer, number)
                try:
                    await self._store.create(self.record_type.name, document_of(record))
                    return self._created
                except DuplicateIndex as error:
                    raise self._already_registered(record) from error
                except DuplicateKey:
                    continue
            raise RecordsUnavailable("No free record number was found")

    def _customer(self, asked: str | Mapping[str, Any]) -> str | Fields:
        if isinstance(asked, str):
            _check_mobile_number(asked, "createAccount")
            return asked
        assert self.record_type.create_request is not None
        return self.record_type.create_request.read(asked)

    async def fetch(self, scope: Scope, body: bytes) -> Answer:
        """Fetch the record with this mobile number."""
        mobile = _mobile_number(scope)
        with self._observed("fetch"):
            _check_findable(mobile, "fetchAccountDetails")
            value = await self._store.get_by_index(self.record_type.name, mobile)
            if value is None:
                raise self._mobile_unknown(mobile)
            return 200, value, JSON_HEADERS

    async def update(self, scope: Scope, body: bytes) -> Answer:
        """Replace the record with this record number; its mobile number may change."""
        members = read_json_object(scope, body)
        try:
            with self._observed("update"):
                await self._replace(self.record_type.record.read(members))
        except InvalidFields as error:
            return json_answer(self.record_type.invalid_update_status, error.messages)
        return self._processed

    async def _replace(self, record: Record) -> None:
        try:
            await self._store.replace(self.record_type.name, document_of(record))
        except DocumentNotFound as error:
            message = self.record_type.number_unknown.format(number=record.number)
            raise _not_found(message) from error
        except DuplicateIndex as error:
            raise self._already_registered(record) from error

    async def delete(self, scope: Scope, body: bytes) -> Answer:
        """Delete the record with this mobile number."""
        mobile = _mobile_number(scope)
        with self._observed("delete"):
            _check_findable(mobile, "deleteAccountDetails")
            if not await self._store.delete_by_index(self.record_type.name, mobile):
                raise self._mobile_unknown(mobile)
            return self._processed

    @contextmanager
    def _observed(self, operation: str) -> Iterator[None]:
        started = time.perf_counter()
        outcome = "failed"
        try:
            yield
            outcome = "ok"
        except RecordError as error:
            outcome = error.outcome
            raise
        except (InvalidFields, MalformedBody):
            outcome = INVALID
            raise
        except asyncio.CancelledError:  # the client has gone
            outcome = "cancelled"
            raise
        except StoreUnavailable as error:
            outcome = RecordsUnavailable.OUTCOME
            raise RecordsUnavailable("The record store is not available") from error
        finally:
            self._observe(operation, outcome, (time.perf_counter() - started) * 1000)

    def _already_registered(self, record: Record) -> RecordError:
        message = self.record_type.already_registered.format(mobile=record.mobileNumber)
        return RecordError(message, HTTPStatus.BAD_REQUEST, "duplicate")

    def _mobile_unknown(self, mobile: str) -> RecordError:
        return _not_found(self.record_type.mobile_unknown.format(mobile=mobile))


def _success(status: HTTPStatus, message: str) -> Answer:
    return json_answer(
        status, StatusResponse(statusCode=str(status.value), statusMsg=message).model_dump()
    )


def _mobile_number(scope: Scope) -> str:
    values = [value for name, value in query_of(scope) if name == "mobileNumber"]
    if not values:
        raise RefusedError("Required parameter 'mobileNumber' is not present.", 400)
    # given twice, it is ambiguous; joined by a comma, it is not a number
    return ",".join(values)


def _not_found(message: str) -> RecordError:
    return RecordError(message, HTTPStatus.NOT_FOUND, "not_found")


def _check_findable(mobile: str, operation: str) -> None:
    if mobile:  # an empty number is valid by the contract's pattern, but finds nothing
        _check_mobile_number(mobile, operation)


def _check_mobile_number(mobile: str, operation: str) -> None:
    if MOBILE_NUMBER.fullmatch(mobile) is None:
        message = f"{operation}.mobileNumber: Mobile number must be 10 digits"
        # as documented, although the fault is the caller's
        raise RecordError(message, HTTPStatus.INTERNAL_SERVER_ERROR, INVALID)
