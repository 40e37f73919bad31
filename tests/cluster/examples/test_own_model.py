"""The engine serves a model that is not the policy, with the same guarantees."""

import asyncio
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from deployments.stateful.row import Key
from examples.own_model.lstm import INPUTS, Lstm
from load_tests.harness.system import System

NAME = "lstm"
ENTITIES = [f"sensor-{n}" for n in range(6)]


@pytest.fixture(scope="module")
def lstm(system: System, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = Path(tmp_path_factory.mktemp("lstm")) / "states.db"
    env = {"STORE_URL": f"sqlite:///{path}"}
    application: dict[str, Any] = {
        "name": NAME,
        "route_prefix": f"/{NAME}",
        "import_path": "examples.own_model.lstm:app",
        "runtime_env": {"env_vars": env},
    }
    system.deploy(application)
    yield f"{system.url}/{NAME}"
    system.remove(NAME)


class Clients:
    """Concurrent clients of some entities, and what each of them was answered."""

    def __init__(self, url: str, run: str) -> None:
        self._url, self._run = url, run
        self.answers: dict[str, list[tuple[list[float], dict[str, Any]]]] = {
            entity: [] for entity in ENTITIES
        }

    async def step(self, times: int) -> None:
        """Step each entity that many times, one request after the other."""
        async with httpx.AsyncClient(timeout=20) as client:
            await asyncio.gather(*(self._step(client, each, times) for each in ENTITIES))

    async def _step(self, client: httpx.AsyncClient, entity: str, times: int) -> None:
        answers = self.answers[entity]
        for _ in range(times):
            inputs = np.random.default_rng(len(answers)).normal(size=INPUTS).tolist()
            answer = await self._post(client, f"{self._url}/step/{self._run}/{entity}", inputs)
            answers.append((inputs, answer.json()))

    async def _post(
        self, client: httpx.AsyncClient, url: str, inputs: list[float]
    ) -> httpx.Response:
        """Repeat a request until it is answered; its key keeps it from making two steps."""
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        deadline = time.monotonic() + 30
        while True:
            try:
                answer = await client.post(url, json=inputs, headers=headers)
                if answer.status_code == 200:
                    return answer
                failure = f"{answer.status_code}: {answer.text}"
            except httpx.TransportError as error:
                failure = repr(error)
            assert time.monotonic() < deadline, failure
            await asyncio.sleep(0.1)

    def assert_follows_model(self) -> None:
        """Check that each entity was stepped once for each answer, as in one process."""
        model = Lstm()
        for entity, answers in self.answers.items():
            state = model.initial_state(Key(self._run, entity))[None]
            for n, (inputs, answer) in enumerate(answers, start=1):
                (output,), state = model.step([inputs], state)
                assert answer["step"] == n, entity
                # The order of additions in a product depends on the size of the batch.
                np.testing.assert_allclose(answer["output"], output, rtol=1e-9)


async def test_states_of_another_shape_survive_the_kill_of_a_replica_and_of_the_state_actor(
    system, lstm
):
    clients = Clients(lstm, f"run-{uuid.uuid4().hex[:8]}")
    await clients.step(10)
    for title in (f"ray::ServeReplica:{NAME}:", "ray::StateActor"):
        system.processes(title)[-1].kill()  # the newest is this application's
        await clients.step(10)
    clients.assert_follows_model()
