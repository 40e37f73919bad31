"""What clients do while something happens to the system."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, Protocol

from deployments.stateful.protocol import Key
from load_tests.chaos.clients import PAUSE_AFTER_FAILURE_S, Client
from load_tests.chaos.history import Outcome
from models.networks.shipped import JUNCTIONS

PAUSE_S = 0.01  # between two requests of a client, which leaves a small machine some time
RESET_PERIOD_S = 0.5
CONNECTIONS = 8

Task = Coroutine[Any, Any, None]


class Load(Protocol):
    """Requests for some hidden states."""

    @property
    def keys(self) -> Sequence[Key]:
        """All states, which are asked for once more at the end."""

    async def prepare(self, client: Client) -> None:
        """Do what comes before the fault."""

    def tasks(self, connect: Connect, stop: asyncio.Event) -> Iterator[Task]:
        """Return what goes on until ``stop``, and then finishes what it has begun."""


class Connect(Protocol):
    def __call__(self, connections: int = 1) -> Client: ...


class MixedLoad:
    """Hidden states of different fates: stepped all the while, left alone, reset again and again,
    reset once before the fault."""

    def __init__(self, run: str) -> None:
        self._busy = _keys(f"{run}.busy", 5)
        self._crowded = _keys(f"{run}.crowded", 1)
        self._reset = _keys(f"{run}.reset", 2)
        self._still = _keys(f"{run}.still", 5)
        self._cleared = _keys(f"{run}.cleared", 2)
        self.keys = [*self._busy, *self._crowded, *self._reset, *self._still, *self._cleared]

    async def prepare(self, client: Client) -> None:
        for key in (*self._still, *self._cleared) * 3:
            await client.predict_until_answered(key)
        while not await client.reset(self._cleared[0].run):
            pass

    def tasks(self, connect: Connect, stop: asyncio.Event) -> Iterator[Task]:
        for number in range(CONNECTIONS):
            yield self._predict(connect(), random.Random(number), stop)
        yield self._keep_resetting(connect(), stop)

    async def _predict(self, client: Client, chance: random.Random, stop: asyncio.Event) -> None:
        # of all requests, a third for one key, so that they meet there
        keys = [*self._busy, *self._reset, *self._crowded * 4]
        while not stop.is_set():
            asked = await client.predict(chance.choice(keys))
            failed = asked.outcome is not Outcome.ANSWERED
            await asyncio.sleep(PAUSE_AFTER_FAILURE_S if failed else PAUSE_S)

    async def _keep_resetting(self, client: Client, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await client.reset(self._reset[0].run)
            await asyncio.sleep(RESET_PERIOD_S)


class RepeatedLoad:
    """Requests with idempotency keys, repeated until they are answered, and some of them once more,
    at the same time or afterwards.

    A state remembers its newest 16 keys. So each client has states of its own, and few requests for
    one of them under way.
    """

    BURST = 4
    REPEATED = 0.2

    def __init__(self, run: str) -> None:
        self._own = [_keys(f"{run}.{number}", 5) for number in range(CONNECTIONS)]
        self.keys = [key for own in self._own for key in own]

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


def _keys(run: str, n: int) -> list[Key]:
    return [Key(run, junction) for junction in list(JUNCTIONS)[:n]]


LOADS: dict[str, type[MixedLoad | RepeatedLoad]] = {"mixed": MixedLoad, "repeated": RepeatedLoad}
