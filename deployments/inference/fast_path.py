"""The routes that take a body as plain ASGI, in front of FastAPI.

Predictions carry all of the load, and FastAPI's per-request work (dependency solving, response
models, three layers of middleware) costs several times the GRU step. So they read the body's bytes
into a validated model and write the answer's bytes directly. A reset comes the same way, for the
same limits on its body. FastAPI still declares the routes, for the OpenAPI document and for wrong
methods.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployments.http.errors import BodyTooLargeError, BodyTooSlowError
from deployments.http.request import header, read_body
from deployments.http.run_id import RAW_RUN_HEADER
from deployments.inference.errors import InferenceError, OverloadedError, refusal_of
from deployments.inference.protocol import HiddenStateError
from deployments.inference.replica.stepper import Decision
from deployments.inference.schemas import (
    BatchRequest,
    PredictionItem,
    PredictionRequest,
    ResetRequest,
    ResetResponse,
)
from deployments.inference.service import InferenceService, run_of
from models.junctions import JUNCTIONS

logger = logging.getLogger("ray.serve")

STEP_HEADER = b"x-hidden-state-step"

_JSON_HEADER = (b"content-type", b"application/json")
_PREDICTION = TypeAdapter(PredictionRequest)
_BATCH = TypeAdapter(BatchRequest)
_ITEM = TypeAdapter(PredictionItem)
_RESET: TypeAdapter[ResetRequest | None] = TypeAdapter(ResetRequest | None)
_RESET_DONE = ResetResponse().model_dump_json().encode()
_PREFIX = {junction: f'{{"junction_id":"{junction}","action":' for junction in JUNCTIONS}

Answer = tuple[int, bytes, list[tuple[bytes, bytes]]]


class Route(NamedTuple):
    """``counted`` requests are refused when too many are at work."""

    handle: Callable[[Scope, bytes], Awaitable[Answer]]
    max_body: int
    counted: bool


class FastPath:
    """ASGI middleware that answers the routes with a body itself.

    Args:
        app: everything else.
        service: where predictions come from.
        max_waiting: requests at work at once; more are refused with 503, so that no queue grows
            without bound.
        max_body: bytes of one prediction or a reset, and of ``/predict_actions``.
    """

    def __init__(
        self,
        app: ASGIApp,
        service: InferenceService,
        max_waiting: int,
        max_body: tuple[int, int],
    ) -> None:
        self._app = app
        self._service = service
        self._max_waiting = max_waiting
        self._waiting = 0
        self._routes = {
            "/predict_action": Route(self._predict_action, max_body[0], counted=True),
            "/predict_actions": Route(self._predict_actions, max_body[1], counted=True),
            "/reset_hidden": Route(self._reset_hidden, max_body[0], counted=False),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            route = self._routes.get(scope["path"].removeprefix(scope.get("root_path", "")))
            if route is not None:
                status, body, headers = await self._answer(route, scope, receive)
                headers += (_JSON_HEADER, (b"content-length", str(len(body)).encode()))
                start: Message = {"type": "http.response.start", "status": status}
                start["headers"] = headers
                await send(start)
                await send({"type": "http.response.body", "body": body})
                return
        await self._app(scope, receive, send)

    async def _answer(self, route: Route, scope: Scope, receive: Receive) -> Answer:
        if route.counted and self._waiting >= self._max_waiting:
            return _refusal(OverloadedError("Too many requests are waiting"))
        self._waiting += route.counted
        try:
            return await route.handle(scope, await read_body(receive, route.max_body))
        except ValidationError as error:
            return 422, json.dumps({"detail": validation_detail(error)}).encode(), []
        except (InferenceError, HiddenStateError) as error:
            return _refusal(refusal_of(error))
        except BodyTooLargeError as error:
            return 413, _detail(str(error)), []
        except BodyTooSlowError:
            return 408, _detail("The request body did not arrive in time"), []
        except Exception:
            logger.exception("A request failed")
            return 500, _detail("Internal Server Error"), []
        finally:
            self._waiting -= route.counted

    async def _predict_action(self, scope: Scope, body: bytes) -> Answer:
        request = _PREDICTION.validate_json(body)
        run = run_of(header(scope, RAW_RUN_HEADER), request.run_id)
        decision = await self._service.predict(run, request.junction_id, request.obs_data)
        answer = _prediction(request.junction_id, decision)
        return 200, answer.encode(), [(STEP_HEADER, str(decision.step).encode())]

    async def _reset_hidden(self, scope: Scope, body: bytes) -> Answer:
        request = _RESET.validate_json(body) if body.strip() else None
        run = run_of(header(scope, RAW_RUN_HEADER), request.run_id if request else None)
        await self._service.reset(run)
        return 200, _RESET_DONE, []

    async def _predict_actions(self, scope: Scope, body: bytes) -> Answer:
        request = _BATCH.validate_json(body)
        run = run_of(header(scope, RAW_RUN_HEADER), request.run_id)
        steps = [self._submit(run, item) for item in request.items]
        try:
            pairs = zip(request.items, steps, strict=True)
            answers = [await self._item(item, step) for item, step in pairs]
        except BaseException:  # the client has gone: what is not stepped yet must not be
            for step in steps:
                if isinstance(step, asyncio.Future):
                    step.cancel()
            raise
        return 200, f'{{"items":[{",".join(answers)}]}}'.encode(), []

    def _submit(self, run: str, item: Any) -> asyncio.Future[Decision] | InferenceError:
        """Queue an item's step at once, so that all items of a request share a batch."""
        try:
            valid = _ITEM.validate_python(item)
            return self._service.predict(run, valid.junction_id, valid.obs_data, shared=True)
        except InferenceError as error:
            return error
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            where = ".".join(map(str, first["loc"])) or "item"
            return _InvalidItemError(f"{where}: {first['msg']}")

    async def _item(self, item: Any, step: asyncio.Future[Decision] | InferenceError) -> str:
        try:
            if isinstance(step, InferenceError):
                raise step
            decision = await step
        except (InferenceError, HiddenStateError) as error:
            refusal = refusal_of(error)
            junction_id = item.get("junction_id") if isinstance(item, dict) else None
            named = junction_id if isinstance(junction_id, str) else None
            failure = {"status": refusal.status, "detail": str(refusal)}
            return json.dumps({"junction_id": named, "error": failure})
        return _prediction(item["junction_id"], decision)


class _InvalidItemError(InferenceError):
    status = 422


def _prediction(junction_id: str, decision: Decision) -> str:
    return f'{_PREFIX[junction_id]}{decision.action},"confidence":{decision.confidence}}}'


def _refusal(error: InferenceError) -> Answer:
    headers = []
    if error.retry_after_s is not None:
        headers.append((b"retry-after", str(error.retry_after_s).encode()))
    return error.status, _detail(str(error)), headers


def _detail(text: str) -> bytes:
    return json.dumps({"detail": text}).encode()


def validation_detail(error: ValidationError, *, prefix: str = "body") -> list[dict[str, Any]]:
    """FastAPI's form of a 422, without the input: that may hold NaN, or megabytes."""
    return [
        {"type": each["type"], "loc": [prefix, *each["loc"]], "msg": each["msg"]}
        for each in error.errors(include_url=False, include_input=False, include_context=False)
    ]
