"""What the operations on a record do with a request."""

from __future__ import annotations

from http import HTTPStatus

from starlette.datastructures import QueryParams
from starlette.types import Scope

from deployments.customers.records.error_answers import json_answer
from deployments.customers.records.errors import InvalidFields, MissingParameter
from deployments.customers.records.json_body import read_json_object
from deployments.customers.records.responses import StatusResponse
from deployments.customers.records.service import RecordService
from deployments.http.answers import JSON_HEADERS, Answer


class Routes:
    """Handlers around a service. Their docstrings stand in the OpenAPI document."""

    def __init__(self, service: RecordService) -> None:
        self._service = service
        self._created = _success(HTTPStatus.CREATED, service.record_type.created)
        self._processed = _success(HTTPStatus.OK, "Request processed successfully")

    async def create(self, scope: Scope, body: bytes) -> Answer:
        """Create the record of a customer who has none, with a number of its own."""
        request_type = self._service.record_type.create_request
        if request_type is None:
            await self._service.create_for(_mobile_number(scope))
        else:
            await self._service.create_from(request_type, read_json_object(scope, body))
        return self._created

    async def fetch(self, scope: Scope, body: bytes) -> Answer:
        """Fetch the record with this mobile number."""
        return 200, await self._service.fetch(_mobile_number(scope)), JSON_HEADERS

    async def update(self, scope: Scope, body: bytes) -> Answer:
        """Replace the record with this record number; its mobile number may change."""
        try:
            await self._service.update(read_json_object(scope, body))
        except InvalidFields as error:
            return json_answer(self._service.record_type.invalid_update_status, error.messages)
        return self._processed

    async def delete(self, scope: Scope, body: bytes) -> Answer:
        """Delete the record with this mobile number."""
        await self._service.delete(_mobile_number(scope))
        return self._processed


def _mobile_number(scope: Scope) -> str:
    values = QueryParams(scope["query_string"]).getlist("mobileNumber")
    if not values:
        raise MissingParameter("mobileNumber")
    # Given twice it is not clear which record is meant; with the comma it is not a number at all.
    return ",".join(values)


def _success(status: HTTPStatus, message: str) -> Answer:
    return json_answer(
        status, StatusResponse(statusCode=str(status.value), statusMsg=message).model_dump()
    )
