"""Concurrent predictions over real HTTP, and the check that they are one serial history of GRU
steps."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import httpx
import torch

from tests.reference import JUNCTIONS, ReferenceJunction

TOLERANCE = 2e-4  # float32 against float64, through hundreds of steps


@dataclass(frozen=True)
class Answer:
    """One answered prediction; ``step`` is the junction's step count after it, times in seconds."""

    junction: str
    obs: tuple[float, ...]
    action: int
    confidence: float
    step: int
    sent: float
    received: float


@dataclass
class Load:
    """Predictions of random junctions by ``n_clients`` at once until ``stop`` is set."""

    url: str
    run: str
    n_clients: int = 8
    seed: int = 0
    junctions: list[str] = field(default_factory=lambda: list(JUNCTIONS))
    answers: list[Answer] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)  # (junction, what)
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aenter__(self) -> Load:
        limits = httpx.Limits(max_connections=max(64, self.n_clients))
        self._client = httpx.AsyncClient(timeout=15, limits=limits)
        self._tasks = [asyncio.create_task(self._work(n)) for n in range(self.n_clients)]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop.set()
        await asyncio.gather(*self._tasks)
        await self._client.aclose()

    async def until(self, condition: Callable[[], bool], timeout_s: float = 60) -> None:
        async with asyncio.timeout(timeout_s):
            while not condition():
                for task in self._tasks:
                    if task.done():
                        task.result()  # a client that failed its own assertion
                await asyncio.sleep(0.02)

    async def more(self, n_answers: int) -> None:
        """Return after so many further answers."""
        target = len(self.answers) + n_answers
        await self.until(lambda: len(self.answers) >= target)

    async def _work(self, number: int) -> None:
        chance = random.Random(f"{self.seed}/{number}")
        while not self.stop.is_set():
            obs = tuple(round(chance.random(), 3) for _ in range(chance.randint(0, 19)))
            await self.predict(chance.choice(self.junctions), obs)

    async def predict_until_answered(
        self, junction: str, obs: tuple[float, ...], timeout_s: float = 40
    ) -> Answer:
        """Ask again after a refusal, as a 503 with Retry-After tells a client to.

        Every try has the same key: the outcome of a try may be unknown, and it steps once.
        """
        key = uuid.uuid4().hex
        async with asyncio.timeout(timeout_s):
            while (answer := await self.predict(junction, obs, key)) is None:
                pass
        return answer

    async def predict(
        self, junction: str, obs: tuple[float, ...], key: str | None = None
    ) -> Answer | None:
        sent = time.monotonic()
        try:
            response = await self._client.post(
                f"{self.url}/predict_action",
                json={"junction_id": junction, "obs_data": obs},
                headers={"X-Simulation-Run": self.run} | ({"Idempotency-Key": key} if key else {}),
            )
        except httpx.HTTPError as error:
            self.failures.append((junction, repr(error)))
            await asyncio.sleep(0.02)
            return None
        assert response.status_code == 200 or response.status_code >= 500, response.text
        if response.status_code != 200:
            self.failures.append((junction, f"{response.status_code} {response.text}"))
            await asyncio.sleep(0.02)
            return None
        body = response.json()
        step = int(response.headers["x-hidden-state-step"])
        answer = Answer(
            junction, obs, body["action"], body["confidence"], step, sent, time.monotonic()
        )
        self.answers.append(answer)
        return answer


def assert_is_serial_history(
    answers: list[Answer], weights: Mapping[str, torch.Tensor], allowed_gaps: int = 0
) -> None:
    """Assert that each junction's answers are steps 1 to N, once each, as in the reference.

    Actions and confidences are compared.

    Args:
        allowed_gaps: steps that no answer was received for (a request that failed on its way back).
    """
    by_junction: dict[str, dict[int, Answer]] = defaultdict(dict)
    for answer in answers:
        assert answer.step not in by_junction[answer.junction], f"step answered twice: {answer}"
        by_junction[answer.junction][answer.step] = answer
    gaps = 0
    for junction, steps in by_junction.items():
        missing = set(range(1, max(steps) + 1)) - set(steps)
        gaps += len(missing)
        assert gaps <= allowed_gaps, f"{junction}: steps {sorted(missing)[:10]} nobody asked for"
        if not missing:
            assert_follows_reference([steps[s] for s in sorted(steps)], weights)
        for earlier, later in _pairs_in_time(list(steps.values())):
            assert earlier.step < later.step, "answered before the other was sent, yet after it"


def assert_follows_reference(chain: list[Answer], weights: Mapping[str, torch.Tensor]) -> None:
    """Replay ``chain``, the answers of one junction at steps 1 to N in order."""
    reference = ReferenceJunction(weights, chain[0].junction)
    for answer in chain:
        action, confidence = reference.step(answer.obs)
        assert abs(answer.confidence - confidence) < TOLERANCE, answer
        assert answer.action == action or abs(confidence - 0.5) < TOLERANCE, answer


def _pairs_in_time(answers: list[Answer]) -> list[tuple[Answer, Answer]]:
    """Pair each answer with one that was received before it was sent, if there is one."""
    by_received = sorted(answers, key=lambda a: a.received)
    pairs = []
    newest: Answer | None = None
    position = 0
    for later in sorted(answers, key=lambda a: a.sent):
        while position < len(by_received) and by_received[position].received < later.sent:
            candidate = by_received[position]
            newest = candidate if newest is None or candidate.step > newest.step else newest
            position += 1
        if newest is not None:
            pairs.append((newest, later))
    return pairs
