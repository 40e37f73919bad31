"""Concurrent predictions over real HTTP, and the check that they are one serial history."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from load_tests.chaos.checker import check
from load_tests.chaos.clients import Client
from load_tests.chaos.history import History, Key, Outcome, Prediction
from tests.reference import JUNCTIONS, ReferencePolicy
from tests.support.waiting import until_async

TIMEOUT_S = 15.0
PAUSE_AFTER_FAILURE_S = 0.02


@dataclass
class Load:
    """Predictions of random junctions by ``n_clients`` at once until ``stop`` is set."""

    url: str
    run: str
    n_clients: int = 8
    seed: int = 0
    junctions: list[str] = field(default_factory=lambda: list(JUNCTIONS))
    token: str = ""
    history: History = field(default_factory=History)
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def answers(self) -> list[Prediction]:
        return self.history.answers

    @property
    def failures(self) -> list[str]:
        return [each.error for each in self.history.failures]

    async def __aenter__(self) -> Load:
        self._client = Client(
            self.url, self.history, max(64, self.n_clients), TIMEOUT_S, self.token
        )
        await self._client.__aenter__()
        self._tasks = [asyncio.create_task(self._work(n)) for n in range(self.n_clients)]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop.set()
        await asyncio.gather(*self._tasks)
        await self._client.__aexit__(None, None, None)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when a condition holds; fail when nothing is answered any more before it does."""

        def holds() -> bool:
            for task in self._tasks:
                if task.done():
                    task.result()  # a client that failed its own assertion
            return condition()

        await until_async(holds, progress=lambda: len(self.answers))

    async def more(self, n_answers: int) -> None:
        """Return after so many further answers."""
        target = len(self.answers) + n_answers
        await self.until(lambda: len(self.answers) >= target)

    async def reset(self) -> None:
        """Reset the run, and note it in the history."""
        await self._client.reset_until_done(self.run, uuid.uuid4().hex)

    async def _work(self, number: int) -> None:
        chance = random.Random(f"{self.seed}/{number}")
        while not self.stop.is_set():
            observation = [round(chance.random(), 3) for _ in range(chance.randint(0, 19))]
            await self.predict(chance.choice(self.junctions), observation)

    async def predict(
        self, junction: str, observation: Sequence[float], key: str | None = None
    ) -> Prediction:
        asked = await self._client.predict(Key(self.run, junction), key, observation)
        assert not asked.error.startswith("4"), asked.error
        if asked.outcome is not Outcome.ANSWERED:
            await asyncio.sleep(PAUSE_AFTER_FAILURE_S)
        return asked


def assert_is_serial(history: History, weights: Mapping[str, torch.Tensor]) -> None:
    """Assert that each junction's answers are the steps of one serial history from zeros.

    Steps, actions and confidences are compared with the reference policy with these weights.
    """
    verdict = check(history, ReferencePolicy(weights).step)
    assert [str(each) for each in verdict.findings] == []
