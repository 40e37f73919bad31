"""Clients that predict over HTTP and keep a record of it, right or wrong."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import aiohttp

from deployments.http.errors import CODE_HEADER
from deployments.http.names import RUN_HEADER
from deployments.inference.protocol import Key
from testbed.chaos.history import Asked, History, Outcome, Reset

TIMEOUT_S = 6.0
PAUSE_S = 0.01  # between two requests of a client, so that clients leave a small machine some time
PAUSE_AFTER_FAILURE_S = 0.1


class Client:
    """One connection; whatever is sent over it is noted in ``history``."""

    def __init__(self, url: str, history: History) -> None:
        self._url = url
        self._history = history

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=1),
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

    async def predict(self, key: Key) -> Asked:
        sent = time.monotonic()
        body = {"junction_id": key.junction, "obs_data": [0.5, 0.25]}
        outcome, step = await self._post("/predict_action", key.run, body)
        asked = Asked(key, sent, time.monotonic(), outcome, step)
        self._history.asked.append(asked)
        return asked

    async def predict_until_answered(self, key: Key) -> Asked:
        while (asked := await self.predict(key)).outcome is not Outcome.ANSWERED:
            await asyncio.sleep(PAUSE_AFTER_FAILURE_S)
        return asked

    async def reset(self, run: str) -> bool:
        """Ask for a reset; return whether it is known to have happened."""
        sent = time.monotonic()
        outcome, _ = await self._post("/reset_hidden", run, None)
        confirmed = outcome is Outcome.ANSWERED
        self._history.resets.append(Reset(run, sent, time.monotonic(), confirmed))
        return confirmed

    async def _post(self, path: str, run: str, body: object) -> tuple[Outcome, int]:
        try:
            async with self._session.post(
                self._url + path, json=body, headers={RUN_HEADER: run}
            ) as response:
                await response.read()
        except aiohttp.ClientConnectorError:
            return Outcome.REFUSED, 0  # nothing was sent
        except (aiohttp.ClientError, TimeoutError):
            return Outcome.UNKNOWN, 0
        return _outcome(response), int(response.headers.get("X-Hidden-State-Step", 0))


def _outcome(response: aiohttp.ClientResponse) -> Outcome:
    if response.status == 200:
        return Outcome.ANSWERED
    if response.headers.get(CODE_HEADER) == "outcome_unknown":
        return Outcome.UNKNOWN
    # a 500 is a defect, or the proxy's word for a connection that broke
    from_the_service = response.content_type == "application/json" and response.status != 500
    return Outcome.REFUSED if from_the_service else Outcome.UNKNOWN


async def keep_predicting(
    client: Client, keys: Sequence[Key], chance: random.Random, stop: asyncio.Event
) -> None:
    """Predict for one random key after the other; a request under way is waited for."""
    while not stop.is_set():
        asked = await client.predict(chance.choice(keys))
        failed = asked.outcome is not Outcome.ANSWERED
        await asyncio.sleep(PAUSE_AFTER_FAILURE_S if failed else PAUSE_S)


async def keep_resetting(client: Client, run: str, period_s: float, stop: asyncio.Event) -> None:
    """Reset a run again and again."""
    while not stop.is_set():
        await client.reset(run)
        await asyncio.sleep(period_s)
