"""Calls of the inference service over HTTP, on connections that are kept open."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from deployments.gateway.inference_client import (
    InferenceUnavailableError,
    Step,
    checked_action,
    error_of,
)

_ROUTE = "/predict_action"
_JSON = {"Content-Type": "application/json"}


def check_url(url: str) -> None:
    """Refuse what is not a full ``/predict_action`` URL.

    Raises:
        ValueError: says what is expected.
    """
    parts = urlsplit(url)
    plain = not (parts.query or parts.fragment)
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain:
        raise ValueError(f"RL_INFERENCE_SERVICE_URL is no plain http(s) URL: {url!r}")
    if not parts.path.endswith(_ROUTE):
        raise ValueError(f"RL_INFERENCE_SERVICE_URL must end with {_ROUTE}: {url!r}")


class HttpTransport:
    """Implements :class:`.inference_client.Transport`.

    Args:
        url: the full ``/predict_action`` URL; the other two are derived from it.
        deadline_s: for connection, queue and answer together.
        connections: kept open at most; more calls wait, within their deadline.
    """

    def __init__(self, url: str, deadline_s: float, connections: int = 256) -> None:
        check_url(url)
        base = url.removesuffix(_ROUTE)
        self._act_url = url
        self._reset_url = base + "/reset_hidden"
        self._health_url = base + "/health"
        self._timeout = aiohttp.ClientTimeout(total=deadline_s)
        self._connections = connections
        self._opened: aiohttp.ClientSession | None = None

    async def act(self, step: Step) -> int:
        body = {"junction_id": step.junction_id, "obs_data": step.obs}
        headers = _JSON | _headers(step.run, step.request_id)
        answer = await self._call("POST", self._act_url, headers, json.dumps(body).encode())
        return checked_action(answer.get("action"))

    async def reset(self, run: str | None, request_id: str | None) -> None:
        await self._call("POST", self._reset_url, _headers(run, request_id))

    async def health(self) -> str:
        answer = await self._call("GET", self._health_url, {})
        return str(answer.get("status"))

    async def _call(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> dict[str, Any]:
        try:
            async with self._session().request(
                method, url, data=body, headers=headers, allow_redirects=False
            ) as response:
                status, text = response.status, await response.read()
        except TimeoutError as error:
            raise InferenceUnavailableError("too_slow") from error
        except (aiohttp.ClientError, OSError) as error:
            raise InferenceUnavailableError("unreachable", str(error)) from error
        return _object(status, text)

    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            self._opened = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._connections),
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._opened

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()


def _headers(run: str | None, request_id: str | None) -> dict[str, str]:
    named = {"X-Simulation-Run": run, "x-request-id": request_id}
    return {name: value for name, value in named.items() if value is not None}


def _object(status: int, text: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if status == 200:
        if isinstance(answer, dict):
            return answer
        raise InferenceUnavailableError("unusable", "the answer is no JSON object")
    detail = answer.get("detail") if isinstance(answer, dict) else None
    raise error_of(status, detail if isinstance(detail, str) else f"HTTP status {status}")
