"""Calls of an inference service over HTTP, on connections that are kept open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from deployments.gateway.errors import BadRequestError
from deployments.gateway.inference_calls.batcher import Outcome, SharedCalls
from deployments.gateway.inference_calls.client import (
    InferenceUnavailableError,
    Step,
    checked_action,
    error_of,
)
from deployments.gateway.inference_calls.connections import Connections
from deployments.http.errors import CODE_HEADER
from deployments.http.messages import KEY_HEADER, RUN_HEADER
from deployments.trace_context import traces_of
from deployments.tracing import process as tracing
from models.junctions import N_ACTIONS

_ROUTE = "/predict_action"
_SHARED_ROUTE = "/predict_actions"
_JSON = {"Content-Type": "application/json"}
_CODE = CODE_HEADER.lower()


def base_of(url: str) -> str:
    """Return what comes before the route in a full ``/predict_action`` URL.

    Raises:
        ValueError: it is not such a URL; says what is expected.
    """
    parts = urlsplit(url)
    plain = not (parts.query or parts.fragment)
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain:
        raise ValueError(f"RL_INFERENCE_SERVICE_URL is not a plain http(s) URL: {url!r}")
    if not parts.path.endswith(_ROUTE):
        raise ValueError(f"RL_INFERENCE_SERVICE_URL must end with {_ROUTE}: {url!r}")
    return url.removesuffix(_ROUTE)


class HttpTransport:
    """Implements :class:`.client.Transport`.

    Args:
        find_base: finds the service's base URL, anew while nothing or something else answers
            there: it may start later, or move.
        deadline_s: for finding it, connection, queue and answer together.
        shares_calls: whether steps that arrive together go in one call of ``/predict_actions``,
            which is not part of the contract.
        token: that the service asks for, if it does.
        n_actions: of the network; what the service answers is below.
    """

    def __init__(
        self,
        find_base: Callable[[], Awaitable[str]],
        deadline_s: float,
        shares_calls: bool,
        token: str | None = None,
        n_actions: int = N_ACTIONS,
    ) -> None:
        self._find_base = find_base
        self._deadline_s = deadline_s
        self._shared = SharedCalls(self._act_together) if shares_calls else None
        self._n_actions = n_actions
        self._base: str | None = None
        self._token = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._connections = Connections()

    async def act(self, step: Step) -> int:
        if self._shared is not None:
            return await self._shared.act(step)
        return await self._act_alone(step)

    async def reset(self, run: str | None, request_id: str | None) -> None:
        await self._call("POST", "/reset_hidden", _headers(run, request_id))

    async def health(self) -> str:
        return str((await self._call("GET", "/health", {})).get("status"))

    async def close(self) -> None:
        if self._shared is not None:
            self._shared.close()
        self._connections.close()

    async def _act_alone(self, step: Step) -> int:
        body = {"junction_id": step.junction_id, "obs_data": step.obs}
        headers = {KEY_HEADER: step.key, **_headers(step.run, step.request_id)}
        with tracing.covering(f"POST {_ROUTE}", traces_of([step.trace]), "client"):
            answer = await self._call("POST", _ROUTE, headers, body)
        return checked_action(answer.get("action"), self._n_actions)

    async def _act_together(self, steps: Sequence[Step]) -> Sequence[Outcome]:
        if len(steps) == 1:
            return [await self._act_alone(steps[0])]
        items = [
            {"junction_id": step.junction_id, "obs_data": step.obs, "request_id": step.key}
            for step in steps
        ]
        headers = _headers(steps[0].run, steps[0].request_id)
        traces = traces_of(step.trace for step in steps)
        try:
            with tracing.covering(f"POST {_SHARED_ROUTE}", traces, "client", {"steps": len(steps)}):
                answer = await self._call("POST", _SHARED_ROUTE, headers, {"items": items})
            return [_read_item(item, self._n_actions) for item in answer["items"]]
        except BadRequestError as error:  # not for what one of the clients has sent
            raise InferenceUnavailableError("unusable", str(error)) from error
        except (KeyError, TypeError) as error:
            raise InferenceUnavailableError("unusable", "no list of items") from error

    async def _call(
        self, method: str, path: str, headers: Mapping[str, str], body: object = None
    ) -> dict[str, Any]:
        headers = {**headers, **self._token, **tracing.headers()}
        try:
            async with asyncio.timeout(self._deadline_s):
                if self._base is None:
                    self._base = await self._find_base()
                return await self._exchange(method, self._base + path, headers, body)
        except BadRequestError:
            raise
        except InferenceUnavailableError as error:
            if error.cause == "unusable":  # somebody else may be at its address
                self._base = None
            raise
        except TimeoutError as error:
            raise InferenceUnavailableError("too_slow") from error
        except Exception as error:
            self._base = None
            raise InferenceUnavailableError(
                "unreachable", f"{type(error).__name__}: {error}"
            ) from error

    async def _exchange(
        self, method: str, url: str, headers: Mapping[str, str], body: object
    ) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = headers if data is None else {**_JSON, **headers}
        response = await self._connections.exchange(method, url, headers, data)
        return _object(response.status, response.body, response.headers.get(_CODE))


def _headers(run: str | None, request_id: str | None) -> dict[str, str]:
    named = {RUN_HEADER: run, "x-request-id": request_id}
    return {name: value for name, value in named.items() if value is not None}


def _object(status: int, text: bytes, code: str | None) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if status == 200:
        if isinstance(answer, dict):
            return answer
        raise InferenceUnavailableError("unusable", "the answer is not a JSON object")
    detail = answer.get("detail") if isinstance(answer, dict) else None
    if isinstance(detail, str):
        raise error_of(status, detail, code)
    if status in (400, 422):  # nothing that the inference service says to a client
        raise InferenceUnavailableError("unusable", f"HTTP status {status}")
    raise error_of(status, f"HTTP status {status}")


def _read_item(item: Any, n_actions: int) -> Outcome:
    try:
        error = item.get("error")
        if error:
            return error_of(error["status"], error["detail"], error.get("code"))
        return checked_action(item["action"], n_actions)
    except InferenceUnavailableError as error:
        return error
    except (AttributeError, KeyError, TypeError):
        return InferenceUnavailableError("unusable", f"item {item!r:.50}")
