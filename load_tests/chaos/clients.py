"""Clients that predict over HTTP and keep a record of it, right or wrong."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import NamedTuple, Self

import aiohttp

from deployments.http.errors import CODE_HEADER
from deployments.http.messages import KEY_HEADER, RUN_HEADER
from deployments.stateful.protocol import Key
from load_tests.chaos.history import Asked, History, Outcome, Reset

TIMEOUT_S = 6.0
PAUSE_AFTER_FAILURE_S = 0.1


class Client:
    """Some connections; whatever is sent over them is noted in ``history``."""

    def __init__(self, url: str, history: History, connections: int = 1) -> None:
        self._url = url
        self._history = history
        self._connections = connections

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections),
            timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._session.close()

    async def predict(self, key: Key, request: str | None = None) -> Asked:
        """Ask for one step.

        Args:
            request: an idempotency key.
        """
        sent = time.monotonic()
        named = {KEY_HEADER: request} if request else {}
        what = {"junction_id": key.entity, "obs_data": [0.5, 0.25]}
        answer = await self._post("/predict_action", key.run, what, named)
        body = answer.body if request else b""
        asked = Asked(key, sent, time.monotonic(), answer.outcome, answer.step, request, body)
        self._history.asked.append(asked)
        return asked

    async def predict_until_answered(self, key: Key, request: str | None = None) -> Asked:
        while (asked := await self.predict(key, request)).outcome is not Outcome.ANSWERED:
            await asyncio.sleep(PAUSE_AFTER_FAILURE_S)
        return asked

    async def reset(self, run: str) -> bool:
        """Ask for a reset; return whether it is known to have happened."""
        sent = time.monotonic()
        answer = await self._post("/reset_hidden", run, None, {})
        confirmed = answer.outcome is Outcome.ANSWERED
        self._history.resets.append(Reset(run, sent, time.monotonic(), confirmed))
        return confirmed

    async def _post(self, path: str, run: str, what: object, named: dict[str, str]) -> _Answer:
        headers = {RUN_HEADER: run, **named}
        try:
            async with self._session.post(self._url + path, json=what, headers=headers) as response:
                body = await response.read()
        except aiohttp.ClientConnectorError:
            return _Answer(Outcome.REFUSED)  # nothing was sent
        except (aiohttp.ClientError, TimeoutError):
            return _Answer(Outcome.UNKNOWN)
        step = int(response.headers.get("X-Hidden-State-Step", 0))
        return _Answer(_outcome(response), step, body)


class _Answer(NamedTuple):
    outcome: Outcome
    step: int = 0
    body: bytes = b""


def _outcome(response: aiohttp.ClientResponse) -> Outcome:
    if response.status == 200:
        return Outcome.ANSWERED
    if response.headers.get(CODE_HEADER) == "outcome_unknown":
        return Outcome.UNKNOWN
    # a 500 is a defect, or the proxy's word for a connection that broke
    from_the_service = response.content_type == "application/json" and response.status != 500
    return Outcome.REFUSED if from_the_service else Outcome.UNKNOWN
