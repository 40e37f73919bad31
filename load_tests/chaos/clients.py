"""Clients that predict over HTTP and record what they see, and the load that they make."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Self

import aiohttp

from deployments.http.errors import CODE_HEADER
from deployments.http.messages import KEY_HEADER, RUN_HEADER
from load_tests.chaos.history import History, Key, Outcome, Prediction, Reset
from models.networks.shipped import JUNCTIONS

TIMEOUT_S = 6.0
PAUSE_AFTER_FAILURE_S = 0.1
PAUSE_S = 0.01  # between two requests of a client, which leaves a small machine some time
RESET_PERIOD_S = 0.5
REPEATED_PERIOD_S = 0.05
PATIENCE_S = 60.0  # for the states to be reachable again
CONNECTIONS = 8
ANSWERED = "answered"
OBSERVATION = (0.5, 0.25)


class Answer(NamedTuple):
    """What came of a request.

    Attributes:
        what: ``ANSWERED``, or the kind of failure.
        body: of the response, or the error of the connection.
        headers: of a good answer.
    """

    outcome: Outcome
    what: str
    body: bytes = b""
    headers: Mapping[str, str] = MappingProxyType({})


class Client:
    """Connections, and the history of what is sent over them.

    Args:
        connections: how many at most; 0 is no limit.
    """

    def __init__(
        self,
        url: str,
        history: History,
        connections: int = 0,
        timeout_s: float = TIMEOUT_S,
        token: str = "",
    ) -> None:
        self._url = url
        self._history = history
        self._connections = connections
        self._timeout_s = timeout_s
        self._token = {"Authorization": f"Bearer {token}"} if token else {}

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            # servers close a connection after five idle seconds; one in use must not be closed
            connector=aiohttp.TCPConnector(limit=self._connections, keepalive_timeout=4),
            timeout=aiohttp.ClientTimeout(total=self._timeout_s),
            headers=self._token,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def ask(
        self,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        status: int = 200,
    ) -> Answer:
        """Send a POST request.

        Args:
            status: of a good answer.
        """
        try:
            async with self._session.post(self._url + path, json=body, headers=headers) as response:
                content = await response.read()
        except aiohttp.ClientConnectorError as error:  # nothing was sent
            return Answer(Outcome.REFUSED, "connection refused", repr(error).encode())
        except aiohttp.ClientError as error:
            return Answer(Outcome.UNKNOWN, "connection broken", repr(error).encode())
        except TimeoutError:
            return Answer(Outcome.UNKNOWN, f"no answer in {self._timeout_s:g} s")
        if response.status == status:
            return Answer(Outcome.ANSWERED, ANSWERED, content, response.headers)
        # a 500 is a defect, or the proxy's answer for a connection that broke
        is_json = response.content_type.endswith("json")
        doubtful = response.headers.get(CODE_HEADER) == "outcome_unknown" or response.status == 500
        outcome = Outcome.REFUSED if is_json and not doubtful else Outcome.UNKNOWN
        what = f"{response.status}" if is_json else f"{response.status} {response.content_type}"
        return Answer(outcome, what, content)

    async def predict(
        self, key: Key, request: str | None = None, observation: Sequence[float] = OBSERVATION
    ) -> Prediction:
        """Ask for one step.

        Args:
            request: an idempotency key.
        """
        sent = time.monotonic()
        body = {"junction_id": key.junction, "obs_data": list(observation)}
        answer = await self.ask("/predict_action", body, _headers(key.run, request))
        answered = answer.outcome is Outcome.ANSWERED
        prediction = json.loads(answer.body) if answered else {}
        asked = Prediction(
            key,
            sent,
            time.monotonic(),
            answer.outcome,
            int(answer.headers.get("X-Hidden-State-Step", 0)),
            request,
            answer.body if request and answered else b"",
            tuple(observation),
            prediction.get("action", 0),
            prediction.get("confidence", 0.0),
            "" if answered else f"{answer.what}: {answer.body.decode(errors='replace')}",
        )
        self._history.predictions.append(asked)
        return asked

    async def predict_until_answered(self, key: Key, request: str | None = None) -> Prediction:
        while True:
            asked = await self.predict(key, request)
            if asked.outcome is Outcome.ANSWERED:
                return asked
            await asyncio.sleep(PAUSE_AFTER_FAILURE_S)

    async def reset(self, run: str, request: str | None = None) -> bool:
        """Ask for a reset; return whether it is known to have happened."""
        sent = time.monotonic()
        outcome = (await self.ask("/reset_hidden", None, _headers(run, request))).outcome
        self._history.resets.append(Reset(run, sent, time.monotonic(), outcome, request))
        return outcome is Outcome.ANSWERED

    async def reset_until_done(self, run: str, request: str) -> None:
        while not await self.reset(run, request):
            await asyncio.sleep(PAUSE_AFTER_FAILURE_S)


def _headers(run: str, request: str | None) -> dict[str, str]:
    return {RUN_HEADER: run} | ({KEY_HEADER: request} if request else {})


class Load:
    """Hidden states of five kinds: stepped all the time, left alone, reset again and again, reset
    once before the fault, and stepped by requests of which each is sent twice.

    Attributes:
        keys: all states, for which one more step is requested at the end.
        busy: runs that are stepped all the time.
    """

    def __init__(self, run: str) -> None:
        self._busy = _keys(f"{run}.busy", 5)
        self._contended = _keys(f"{run}.contended", 1)
        self._reset = _keys(f"{run}.reset", 2)
        self._still = _keys(f"{run}.still", 5)
        self._cleared = _keys(f"{run}.cleared", 2)
        self._repeated = _keys(f"{run}.repeated", 5)
        stepped = [self._busy, self._contended, self._reset, self._repeated]
        self.keys = [key for kind in (*stepped, self._still, self._cleared) for key in kind]
        self.busy = [kind[0].run for kind in stepped]

    async def prepare(self, client: Client) -> None:
        """Make the requests that come before the fault."""
        for key in (*self._still, *self._cleared) * 3:
            await client.predict_until_answered(key)
        await client.reset_until_done(self._cleared[0].run, "0")

    @contextlib.asynccontextmanager
    async def running(self, url: str, history: History, token: str = "") -> AsyncIterator[None]:
        """Make requests meanwhile; what still waits ``PATIENCE_S`` later is cancelled."""
        stop = asyncio.Event()
        async with Client(url, history, token=token) as client, asyncio.TaskGroup() as group:
            tasks = [self._predict(client, random.Random(n), stop) for n in range(CONNECTIONS)]
            tasks += [self._keep_resetting(client, stop)]
            tasks += [self._keep_repeating(client, key, stop) for key in self._repeated]
            running = [group.create_task(task) for task in tasks]
            try:
                yield
            finally:
                stop.set()
                _, late = await asyncio.wait(running, timeout=PATIENCE_S)
                for task in late:
                    task.cancel()

    async def _predict(self, client: Client, chance: random.Random, stop: asyncio.Event) -> None:
        # a third of all requests are for one key, so that they meet there
        keys = [*self._busy, *self._reset, *self._contended * 4]
        while not stop.is_set():
            asked = await client.predict(chance.choice(keys))
            failed = asked.outcome is not Outcome.ANSWERED
            await asyncio.sleep(PAUSE_AFTER_FAILURE_S if failed else PAUSE_S)

    async def _keep_resetting(self, client: Client, stop: asyncio.Event) -> None:
        run, n_resets = self._reset[0].run, 0
        while not stop.is_set():
            n_resets += 1
            await client.reset_until_done(run, f"{n_resets}")
            await asyncio.sleep(RESET_PERIOD_S)
            await client.reset(run, f"{n_resets}")  # which must not clear the steps since then

    async def _keep_repeating(self, client: Client, key: Key, stop: asyncio.Event) -> None:
        n_requests = 0
        while not stop.is_set():
            n_requests += 1
            once, again = (client.predict_until_answered(key, f"{n_requests}") for _ in range(2))
            if n_requests % 2:
                await asyncio.gather(once, again)
            else:
                await once
                await again
            await asyncio.sleep(REPEATED_PERIOD_S)


def _keys(run: str, n: int) -> list[Key]:
    return [Key(run, junction) for junction in list(JUNCTIONS)[:n]]
