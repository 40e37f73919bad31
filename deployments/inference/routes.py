"""Handlers of the routes with a body.

They validate the body's bytes directly and write the response's bytes, because a step of the GRU
costs less than any framework in between.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import count, repeat
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.types import Scope

from deployments.http import errors as detail_errors
from deployments.http.errors import RefusedError
from deployments.http.messages import JSON, JSON_HEADERS, RAW_KEY_HEADER, RAW_RUN_HEADER, Answer
from deployments.http.request import header
from deployments.inference.errors import (
    InferenceError,
    InvalidBodyError,
    InvalidItemError,
    TooManyKeysError,
    refusal_of,
)
from deployments.inference.policy_model import ObservedRows, faults_of, fingerprint_of
from deployments.inference.schemas import (
    BatchItem,
    BatchRequest,
    PredictionRequest,
    ResetRequest,
    ResetResponse,
)
from deployments.inference.service import (
    InferenceService,
    Steps,
    request_id_of,
    run_of,
)
from deployments.stateful.protocol import MAX_RECEIPTS, Key
from deployments.stateful.replica.queues import StepResult
from deployments.stateful.replica.rows import Keys
from models.networks.network import Junction, lane_names
from models.signals.diagnosis import failed_lanes

STEP_HEADER = b"x-hidden-state-step"

_PREDICTION = TypeAdapter(PredictionRequest)
_BATCH = TypeAdapter(BatchRequest)
_ITEM = TypeAdapter(BatchItem)
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
        # an id needs no escapes
        ids = service.network.ids
        self._prefixes = {each: f'{{"junction_id":"{each}","action":' for each in ids}
        self._lanes = lane_names(service.network)

    async def predict_action(self, scope: Scope, body: bytes) -> Answer:
        """Choose an action for a junction and advance its hidden state by one step.

        A request that is repeated with its `Idempotency-Key` gets the first answer again.
        """
        request = _read(_PREDICTION, body)
        run = run_of(header(scope, RAW_RUN_HEADER), request.run_id)
        request_id = request_id_of(header(scope, RAW_KEY_HEADER))
        result = await self._service.predict(run, request.junction_id, request.obs_data, request_id)
        response = self._prediction(request.junction_id, result)
        return 200, response.encode(), (JSON, (STEP_HEADER, b"%d" % result.step))

    async def predict_actions(self, scope: Scope, body: bytes) -> Answer:
        """Answer 1 to 1,000 items in their order; an item that is wrong spoils no other.

        Each may have a `request_id`, which is to the item what `Idempotency-Key` is to a request.
        With that header, an item without one has the key `KEY.N`, where N counts from 0.
        """
        request = _read_batch(body)
        run = run_of(header(scope, RAW_RUN_HEADER), request.run_id)
        keys = _item_keys(request_id_of(header(scope, RAW_KEY_HEADER)))
        valid: list[tuple[BatchItem, Junction, str | None]] = []
        refused: dict[int, InferenceError] = {}
        keyed: Counter[str] = Counter()
        for row, (item, key) in enumerate(zip(request.items, keys, strict=False)):
            try:
                valid.append(self._checked(item, key, keyed))
            except InferenceError as error:
                refused[row] = error
        made = await self._service.predict_many(_steps_of(run, valid))
        results = map(made.row, count())
        items = [
            self._item(item, refused[row] if row in refused else next(results))
            for row, item in enumerate(request.items)
        ]
        return 200, f'{{"items":[{",".join(items)}]}}'.encode(), JSON_HEADERS

    async def reset_hidden(self, scope: Scope, body: bytes) -> Answer:
        """Clear the hidden states of a run: its later predictions start from zeros."""
        request = _read(_RESET, body) if body.strip() else None
        run = run_of(header(scope, RAW_RUN_HEADER), request.run_id if request else None)
        await self._service.reset(run)
        return 200, _RESET_DONE, JSON_HEADERS

    def _checked(
        self, item: Any, key: str | None, keyed: Counter[str]
    ) -> tuple[BatchItem, Junction, str | None]:
        """Return an item with its junction and its idempotency key.

        Args:
            key: of an item without a ``request_id``.
            keyed: items with a key so far, by junction.

        Raises:
            InferenceError: the item is wrong.
        """
        try:
            valid = _ITEM.validator.validate_python(item)
        except ValidationError as error:
            raise InvalidItemError(error) from None
        if valid.request_id is not None:
            key = request_id_of(valid.request_id)
        if key is not None:
            keyed[valid.junction_id] += 1
            if keyed[valid.junction_id] > MAX_RECEIPTS:
                raise TooManyKeysError()
        return valid, self._service.checked(valid.junction_id, valid.obs_data), key

    def _prediction(self, junction_id: str, result: StepResult) -> str:
        action, confidence, *_ = result.output
        detectors = ""
        if faults := faults_of(result.output):
            failed = failed_lanes(self._lanes[junction_id], list(map(int, faults)))
            detectors = f',"failed_detectors":{json.dumps(failed)}'
        return f'{self._prefixes[junction_id]}{action},"confidence":{confidence}{detectors}}}'

    def _item(self, item: Any, result: StepResult | InferenceError) -> str:
        if isinstance(result, StepResult):
            return self._prediction(item["junction_id"], result)
        junction_id = item.get("junction_id") if isinstance(item, dict) else None
        named = junction_id if isinstance(junction_id, str) else None
        failure: dict[str, Any] = {"status": result.status, "detail": str(result)}
        if result.code is not None:
            failure["code"] = result.code
        return json.dumps({"junction_id": named, "error": failure})


def _steps_of(run: str, items: Sequence[tuple[BatchItem, Junction, str | None]]) -> Steps:
    observations = [item.obs_data for item, _, _ in items]
    keys = [key for _, _, key in items]
    has_keys = any(key is not None for key in keys)
    return Steps(
        _keys_of(run, tuple(junction.id for _, junction, _ in items)),
        ObservedRows([junction.agent_index for _, junction, _ in items], observations),
        keys if has_keys else None,
        list(map(fingerprint_of, observations)) if has_keys else (),
    )


# Most clients send the same junctions in all of their calls. An entry keeps its states in memory.
@lru_cache(maxsize=128)
def _keys_of(run: str, junctions: tuple[str, ...]) -> Keys:
    return Keys(Key(run, junction) for junction in junctions)


def _item_keys(batch_key: str | None) -> Iterator[str | None]:
    """Return the keys that the key of a batch gives to its items, without an end."""
    if batch_key is None:
        return repeat(None)
    return (f"{batch_key}.{n}" for n in count())


def _read(form: TypeAdapter[Body], body: bytes) -> Body:
    try:
        # the adapter itself costs a microsecond more
        read: Body = form.validator.validate_json(body)
    except ValidationError as error:
        raise InvalidBodyError(error) from None
    return read


def _read_batch(body: bytes) -> BatchRequest:
    """Read several predictions from Python's values.

    Directly from the bytes, pydantic would copy a list that is too long for its error, at four
    times the cost.
    """
    try:
        read: BatchRequest = _BATCH.validator.validate_python(from_json(body))
        return read
    except ValidationError as error:
        refusal = InvalidBodyError(error)
        if any(fault["type"] == "too_long" for fault in refusal.faults):
            raise refusal from None
    except ValueError:
        pass  # not JSON
    return _read(_BATCH, body)  # whose error is in terms of JSON
