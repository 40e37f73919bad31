"""Clients that predict over HTTP and record what they see, and the loads that they make."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, Self

import aiohttp

from deployments.http.errors import CODE_HEADER
from deployments.http.messages import KEY_HEADER, RUN_HEADER
from load_tests.chaos.history import History, Key, Outcome, Prediction, Reset
from models.networks.shipped import JUNCTIONS

TIMEOUT_S = 6.0
PAUSE_AFTER_FAILURE_S = 0.1
PAUSE_S = 0.01  # between two requests of a client, which leaves a small machine some time
RESET_PERIOD_S = 0.5
CONNECTIONS = 8
OBSERVATION = (0.5, 0.25)

Task = Coroutine[Any, Any, None]


class Client:
    """Some connections; everything that is sent over them is recorded in ``history``."""

    def __init__(
        self,
        url: str,
        history: History,
        connections: int = 1,
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

    async def predict(
        self, key: Key, request: str | None = None, observation: Sequence[float] = OBSERVATION
    ) -> Prediction:
        """Ask for one step.

        Args:
            request: an idempotency key.
        """
        sent = time.monotonic()
        headers = {KEY_HEADER: request} if request else {}
        body = {"junction_id": key.junction, "obs_data": list(observation)}
        answer = await self._post("/predict_action", key.run, body, headers)
        prediction = json.loads(answer.body) if answer.outcome is Outcome.ANSWERED else {}
        asked = Prediction(
            key,
            sent,
            time.monotonic(),
            answer.outcome,
            answer.step,
            request,
            answer.body if request else b"",
            tuple(observation),
            prediction.get("action", 0),
            prediction.get("confidence", 0.0),
            answer.error,
        )
        self._history.predictions.append(asked)
        return asked

    async def predict_until_answered(
        self, key: Key, request: str | None = None, observation: Sequence[float] = OBSERVATION
    ) -> Prediction:
        while True:
            asked = await self.predict(key, request, observation)
            if asked.outcome is Outcome.ANSWERED:
                return asked
            await asyncio.sleep(PAUSE_AFTER_FAILURE_S)

    async def reset(self, run: str, request: str | None = None) -> bool:
        """Ask for a reset; return whether it is known to have happened."""
        sent = time.monotonic()
        headers = {KEY_HEADER: request} if request else {}
        outcome = (await self._post("/reset_hidden", run, None, headers)).outcome
        self._history.resets.append(Reset(run, sent, time.monotonic(), outcome, request))
        return outcome is Outcome.ANSWERED

    async def reset_until_done(self, run: str, request: str) -> None:
        while not await self.reset(run, request):
            await asyncio.sleep(PAUSE_AFTER_FAILURE_S)

    async def _post(self, path: str, run: str, body: object, headers: dict[str, str]) -> _Answer:
        headers = {RUN_HEADER: run, **headers}
        try:
            async with self._session.post(self._url + path, json=body, headers=headers) as response:
                content = await response.read()
        except aiohttp.ClientConnectorError as error:
            return _Answer(Outcome.REFUSED, error=repr(error))  # nothing was sent
        except (aiohttp.ClientError, TimeoutError) as error:
            return _Answer(Outcome.UNKNOWN, error=repr(error))
        outcome = _outcome(response)
        if outcome is not Outcome.ANSWERED:
            return _Answer(outcome, error=f"{response.status} {content.decode(errors='replace')}")
        return _Answer(outcome, int(response.headers.get("X-Hidden-State-Step", 0)), content)


class _Answer(NamedTuple):
    outcome: Outcome
    step: int = 0
    body: bytes = b""
    error: str = ""


def _outcome(response: aiohttp.ClientResponse) -> Outcome:
    if response.status == 200:
        return Outcome.ANSWERED
    if response.headers.get(CODE_HEADER) == "outcome_unknown":
        return Outcome.UNKNOWN
    # a 500 is a defect, or the proxy's answer for a connection that broke
    from_the_service = response.content_type == "application/json" and response.status != 500
    return Outcome.REFUSED if from_the_service else Outcome.UNKNOWN


class Connect(Protocol):
    def __call__(self, connections: int = 1) -> Client: ...


class Load(Protocol):
    """Requests for some hidden states."""

    @property
    def busy(self) -> Sequence[str]:
        """Runs that are stepped all the time."""

    @property
    def keys(self) -> Sequence[Key]:
        """All states, for which one more step is requested at the end."""

    async def prepare(self, client: Client) -> None:
        """Make the requests that come before the fault."""

    def tasks(self, connect: Connect, stop: asyncio.Event) -> Iterator[Task]:
        """Return what runs until ``stop`` is set, and then finishes what it has begun."""


class MixedLoad:
    """Hidden states of four kinds: stepped all the time, left alone, reset again and again, reset
    once before the fault."""

    def __init__(self, run: str) -> None:
        self._busy = _keys(f"{run}.busy", 5)
        self._contended = _keys(f"{run}.contended", 1)
        self._reset = _keys(f"{run}.reset", 2)
        self._still = _keys(f"{run}.still", 5)
        self._cleared = _keys(f"{run}.cleared", 2)
        self.keys = [*self._busy, *self._contended, *self._reset, *self._still, *self._cleared]
        self.busy = [keys[0].run for keys in (self._busy, self._contended, self._reset)]

    async def prepare(self, client: Client) -> None:
        for key in (*self._still, *self._cleared) * 3:
            await client.predict_until_answered(key)
        await client.reset_until_done(self._cleared[0].run, "0")

    def tasks(self, connect: Connect, stop: asyncio.Event) -> Iterator[Task]:
        for number in range(CONNECTIONS):
            yield self._predict(connect(), random.Random(number), stop)
        yield self._keep_resetting(connect(), stop)

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


class RepeatedLoad:
    """Requests with idempotency keys, repeated until they are answered, and some of them once more,
    at the same time or afterwards.

    A state remembers its newest 64 keys. So each client has its own states, and few requests for
    one of them in progress.
    """

    BURST = 4
    REPEATED = 0.2

    def __init__(self, run: str) -> None:
        self._own = [_keys(f"{run}.{number}", 5) for number in range(CONNECTIONS)]
        self.keys = [key for own in self._own for key in own]
        self.busy = [own[0].run for own in self._own]

    async def prepare(self, client: Client) -> None:
        pass

    def tasks(self, connect: Connect, stop: asyncio.Event) -> Iterator[Task]:
        for number, own in enumerate(self._own):
            client = connect(connections=2 * self.BURST)
            yield self._keep_asking(client, own, random.Random(number), stop)

    async def _keep_asking(
        self, client: Client, own: Sequence[Key], chance: random.Random, stop: asyncio.Event
    ) -> None:
        n_requests = 0
        while not stop.is_set():
            key = chance.choice(own)
            burst = [f"{n_requests + number}" for number in range(chance.randint(1, self.BURST))]
            n_requests += len(burst)
            await asyncio.gather(*(self._ask(client, key, name, chance) for name in burst))
            await asyncio.sleep(PAUSE_S)

    async def _ask(self, client: Client, key: Key, request: str, chance: random.Random) -> None:
        at_once, afterwards = (chance.random() < self.REPEATED / 2 for _ in range(2))
        attempts = (client.predict_until_answered(key, request) for _ in range(1 + at_once))
        await asyncio.gather(*attempts)
        if afterwards:
            await client.predict_until_answered(key, request)


LOADS: dict[str, type[MixedLoad | RepeatedLoad]] = {"mixed": MixedLoad, "repeated": RepeatedLoad}


@contextlib.asynccontextmanager
async def under_load(
    load: Load, url: str, history: History, timeout_s: float
) -> AsyncIterator[None]:
    """Run the tasks of a load meanwhile.

    Args:
        timeout_s: time to finish in, after which tasks are cancelled.
    """
    stop = asyncio.Event()
    clients: list[Client] = []

    def connect(connections: int = 1) -> Client:
        clients.append(Client(url, history, connections))
        return clients[-1]

    tasks = list(load.tasks(connect, stop))
    async with contextlib.AsyncExitStack() as stack:
        for client in clients:
            await stack.enter_async_context(client)
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(task) for task in tasks]
            try:
                yield
            finally:
                stop.set()
                _, late = await asyncio.wait(running, timeout=timeout_s)
                for task in late:
                    task.cancel()


def _keys(run: str, n: int) -> list[Key]:
    return [Key(run, junction) for junction in list(JUNCTIONS)[:n]]
