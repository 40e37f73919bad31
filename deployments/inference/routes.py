"""Handlers of the routes with a body.

They validate the body's bytes directly and write the response's bytes, because a step of the GRU
costs less than any framework in between.
"""

from __future__ import annotations

import json
from itertools import count
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.types import Scope

from deployments.http import errors as detail_errors
from deployments.http.errors import RefusedError
from deployments.http.messages import JSON, JSON_HEADERS, Answer, is_misnamed, not_read
from deployments.inference.errors import InferenceError, InvalidBodyError, faults_in, refusal_of
from deployments.inference.items import ItemReader
from deployments.inference.policy_model import faults_of
from deployments.inference.schemas import (
    BatchRequest,
    PredictionRequest,
    ResetRequest,
    ResetResponse,
)
from deployments.inference.service import InferenceService, names_of
from deployments.stateful.calls import StepResult
from deployments.stateful.model import Output
from models.networks.network import lane_names
from models.signals.diagnosis import failed_lanes

STEP_HEADER = b"x-hidden-state-step"

_PREDICTION = TypeAdapter(PredictionRequest)
_BATCH = TypeAdapter(BatchRequest)
_RESET: TypeAdapter[ResetRequest | None] = TypeAdapter(ResetRequest | None)
_RESET_DONE = ResetResponse().model_dump_json().encode()

Body = TypeVar("Body")


def render_error(scope: Scope, error: Exception) -> Answer:
    """Render an error as ``{"detail": …}``, and an invalid body as FastAPI does."""
    match error:
        case InvalidBodyError():
            return error.status, json.dumps({"detail": error.faults}).encode(), JSON_HEADERS
        case RefusedError() | HTTPException():
            return detail_errors.render_error(scope, error)
        case _:
            return detail_errors.render_error(scope, refusal_of(error))


class Routes:
    """Handlers around a service. Their docstrings are in the OpenAPI document."""

    def __init__(self, service: InferenceService) -> None:
        self._service = service
        self._items = ItemReader(service)
        # an id needs no escapes
        ids = service.network.ids
        self._prefixes = {each: f'{{"junction_id":"{each}","action":' for each in ids}
        self._lanes = lane_names(service.network)

    async def predict_action(self, scope: Scope, body: bytes) -> Answer:
        """Choose an action for a junction and advance its hidden state by one step.

        A request that is repeated with its `Idempotency-Key` gets the first answer again.
        """
        request = read_body(_PREDICTION, body)
        _refuse_misnamed(request)
        run, key = names_of(scope, request.run_id)
        result = await self._service.predict(run, request.junction_id, request.obs_data, key)
        response = self._prediction(request.junction_id, result.output)
        return 200, response.encode(), (JSON, (STEP_HEADER, b"%d" % result.step))

    async def predict_actions(self, scope: Scope, body: bytes) -> Answer:
        """Answer 1 to 1,000 items in their order; an item that is wrong spoils no other.

        Each may have a `request_id`, which is to the item what `Idempotency-Key` is to a request.
        With that header, an item without one has the key `KEY.N`, where N counts from 0.
        """
        request = _read_batch(body)
        _refuse_misnamed(request)
        run, key = names_of(scope, request.run_id)
        read = self._items.read(request.items, run, key)
        made = await self._service.predict_many(read.steps)
        if read.refused or made.errors:
            rest = map(made.row, count())
            results = (read.refused.get(row) or next(rest) for row in range(len(request.items)))
            items = list(map(self._item, request.items, results))
        else:
            junctions = (item["junction_id"] for item in request.items)
            items = list(map(self._prediction, junctions, made.outputs))
        return 200, f'{{"items":[{",".join(items)}]}}'.encode(), JSON_HEADERS

    async def reset_hidden(self, scope: Scope, body: bytes) -> Answer:
        """Clear the hidden states of a run: its later predictions start from zeros.

        A request that is repeated with its `Idempotency-Key` clears nothing more.
        """
        if scope["query_string"]:  # it would clear another run
            raise InferenceError(422, not_read("The query"))
        request = read_body(_RESET, body) if body.strip() else None
        await self._service.reset(*names_of(scope, request.run_id if request else None))
        return 200, _RESET_DONE, JSON_HEADERS

    def _prediction(self, junction_id: str, output: Output) -> str:
        detectors, faults = "", faults_of(output)
        if faults:
            failed = failed_lanes(self._lanes[junction_id], list(map(int, faults)))
            detectors = f',"failed_detectors":{json.dumps(failed)}'
        prefix, action, confidence = self._prefixes[junction_id], output[0], output[1]
        return f'{prefix}{action},"confidence":{confidence}{detectors}}}'

    def _item(self, item: Any, result: StepResult | InferenceError) -> str:
        if isinstance(result, StepResult):
            return self._prediction(item["junction_id"], result.output)
        junction_id = item.get("junction_id") if isinstance(item, dict) else None
        named = junction_id if isinstance(junction_id, str) else None
        failure: dict[str, Any] = {"status": result.status, "detail": str(result)}
        if result.code is not None:
            failure["code"] = result.code
        return json.dumps({"junction_id": named, "error": failure})


def read_body(form: TypeAdapter[Body], body: bytes) -> Body:
    """Return a valid body.

    Raises:
        InvalidBodyError: it does not have the form.
    """
    try:
        # the adapter itself costs a microsecond more
        read: Body = form.validator.validate_json(body)
    except ValidationError as error:
        raise InvalidBodyError(faults_in(error)) from None
    return read


def _refuse_misnamed(request: PredictionRequest | BatchRequest) -> None:
    """Raise InvalidBodyError where a run or key is in a member that is not read."""
    # a validator of the model would cost twice as much
    for name in filter(is_misnamed, request.__pydantic_extra__ or ()):
        raise InvalidBodyError([{"type": "misnamed", "loc": [name], "msg": not_read(name)}])


def _read_batch(body: bytes) -> BatchRequest:
    """Read several predictions from Python's values.

    Directly from the bytes, pydantic would copy a list that is too long for its error, at four
    times the cost.
    """
    try:
        read: BatchRequest = _BATCH.validator.validate_python(from_json(body))
        return read
    except ValidationError as error:
        refusal = InvalidBodyError(faults_in(error))
        if any(fault["type"] == "too_long" for fault in refusal.faults):
            raise refusal from None
    except ValueError:
        pass  # not JSON
    return read_body(_BATCH, body)  # whose error is in terms of JSON
