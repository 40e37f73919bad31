"""Calls of an inference service over HTTP, on connections that are kept open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from pydantic_core import from_json, to_json

from deployments.gateway.errors import BadRequestError, InferenceUnavailableError, error_of
from deployments.gateway.inference_calls.batcher import Decided, Outcome, Step
from deployments.gateway.inference_calls.connections import Connections, Response
from deployments.http.errors import CODE_HEADER
from deployments.http.messages import KEY_HEADER, RUN_HEADER
from deployments.trace_context import traces_of
from deployments.tracing import process as tracing
from models.networks.shipped import N_ACTIONS
from models.signals.diagnosis import FAULTS

ROUTE = "/predict_action"
_SHARED_ROUTE = "/predict_actions"  # not part of the contract
_JSON = {"Content-Type": "application/json"}
_CODE = CODE_HEADER.lower()


class HttpCalls:
    """The calls of an inference service, each within the deadline, connecting included.

    Each raises InferenceUnavailableError, or BadRequestError if the service refuses what a client
    has sent.

    Args:
        find_base: finds the service's base URL; called again after the service was not found
            there.
        deadline_s: for finding it, connection, queue and answer together.
        token: that the service asks for, if it does.
        n_actions: of the network; the actions of an answer are below.
    """

    def __init__(
        self,
        find_base: Callable[[], Awaitable[str]],
        deadline_s: float,
        token: str | None = None,
        n_actions: int = N_ACTIONS,
    ) -> None:
        self._find_base = find_base
        self._deadline_s = deadline_s
        self._n_actions = n_actions
        self._base: str | None = None
        self._token = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._connections = Connections()

    async def step(self, steps: Sequence[Step]) -> Sequence[Outcome]:
        """Return a decision or an error for each of these steps of one run.

        One step alone is a call of the contract, several are a shared call.
        """
        traces = traces_of(step.trace for step in steps)
        headers = _headers(steps[0].run, steps[0].request_id)
        headers[KEY_HEADER] = steps[0].key  # says of several, too, that they may be repeated
        if len(steps) == 1:
            (step,) = steps
            body: dict[str, Any] = {"junction_id": step.junction_id, "obs_data": step.obs}
            with tracing.covering(f"POST {ROUTE}", traces, "client"):
                answer = await self._call("POST", ROUTE, headers, body)
            return [checked_decision(answer, self._n_actions)]
        items = [
            {"junction_id": step.junction_id, "obs_data": step.obs, "request_id": step.key}
            for step in steps
        ]
        try:
            with tracing.covering(f"POST {_SHARED_ROUTE}", traces, "client", {"steps": len(steps)}):
                answer = await self._call("POST", _SHARED_ROUTE, headers, {"items": items})
            return [_read_item(item, self._n_actions) for item in answer["items"]]
        except BadRequestError as error:  # not for what one of the clients has sent
            raise InferenceUnavailableError("unusable", str(error)) from error
        except (KeyError, TypeError) as error:
            raise InferenceUnavailableError("unusable", "no list of items") from error

    async def reset(self, run: str | None, key: str, request_id: str | None) -> None:
        """Clear a run's hidden states, once for all calls with an idempotency key."""
        headers = {**_headers(run, request_id), KEY_HEADER: key}
        await self._call("POST", "/reset_hidden", headers)

    async def health(self) -> str:
        """Return the status that the inference service gives itself."""
        return str((await self._call("GET", "/health", {})).get("status"))

    async def close(self) -> None:
        self._connections.close()

    async def _call(
        self, method: str, path: str, headers: Mapping[str, str], body: object = None
    ) -> dict[str, Any]:
        headers = {**headers, **self._token, **tracing.headers()}
        data = None
        if body is not None:
            headers, data = {**_JSON, **headers}, to_json(body)
        try:
            async with asyncio.timeout(self._deadline_s):
                if self._base is None:
                    self._base = await self._find_base()
                url = self._base + path
                return _read(await self._connections.exchange(method, url, headers, data))
        except BadRequestError:
            raise
        except InferenceUnavailableError as error:
            if error.cause == "unusable":  # another service may have its address
                self._base = None
            raise
        except TimeoutError as error:
            raise InferenceUnavailableError("too_slow") from error
        except Exception as error:
            self._base = None
            raise InferenceUnavailableError(
                "unreachable", f"{type(error).__name__}: {error}"
            ) from error


def _headers(run: str | None, request_id: str | None) -> dict[str, str]:
    named = {RUN_HEADER: run, "x-request-id": request_id}
    return {name: value for name, value in named.items() if value is not None}


def _read(response: Response) -> dict[str, Any]:
    """Return the JSON object of a success, or raise what an error answer means."""
    status = response.status
    try:
        answer = from_json(response.body)
    except ValueError:
        answer = None
    if status == 200:
        if isinstance(answer, dict):
            return answer
        raise InferenceUnavailableError("unusable", "the answer is not a JSON object")
    detail = answer.get("detail") if isinstance(answer, dict) else None
    if isinstance(detail, str):
        raise error_of(status, detail, response.headers.get(_CODE))
    if status in (400, 422):  # nothing that the inference service says to a client
        raise InferenceUnavailableError("unusable", f"HTTP status {status}")
    raise error_of(status, f"HTTP status {status}")


def _read_item(item: Any, n_actions: int) -> Outcome:
    try:
        error = item.get("error")
        if error:
            return error_of(error["status"], error["detail"], error.get("code"))
        return checked_decision(item, n_actions)
    except InferenceUnavailableError as error:
        return error
    except (AttributeError, KeyError, TypeError):
        return InferenceUnavailableError("unusable", f"item {item!r:.50}")


def checked_decision(answer: Mapping[str, Any], n_actions: int) -> Decided:
    """Return a decision whose action the network has.

    Raises:
        InferenceUnavailableError: it is not one.
    """
    action, failed = answer.get("action"), answer.get("failed_detectors")
    if type(action) is not int or not 0 <= action < n_actions:
        raise InferenceUnavailableError("unusable", f"action {action!r:.50}")
    if failed is None:
        return Decided(action)
    if not isinstance(failed, dict) or not set(failed.values()) <= set(FAULTS):
        raise InferenceUnavailableError("unusable", f"failed_detectors {failed!r:.50}")
    return Decided(action, failed)
