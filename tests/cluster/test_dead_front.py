"""kill -9 of Serve's front, and of the actor that keeps it, while clients ask through the edge."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
import uuid
from collections.abc import Iterator

import httpx
import psutil
import pytest

from load_tests.harness.shipped import shipped_application
from load_tests.harness.system import System
from serve_app.processes.edge import Edge
from tests.cluster.conftest import behind_edge
from tests.cluster.gateway.conftest import USER, gateway

JUNCTION = "300839359"
AWAY_S = 1.0
BACK_S = 60.0


@pytest.fixture(scope="module")
def edge(system: System) -> Iterator[Edge]:
    loans = shipped_application("loans")
    with behind_edge(system, gateway("gateway", "/api"), loans) as edge:
        yield edge


def front(system: System) -> list[psutil.Process]:
    """Return Serve's own HAProxy: its configuration lies beside Ray's logs, the edge's does not."""
    found = []
    for each in system.instance.processes():
        with contextlib.suppress(psutil.NoSuchProcess):  # it died since it was listed
            ours = each.name() == "haproxy"
            if ours and str(system.instance.temp_dir) in " ".join(each.cmdline()):
                found.append(each)
    return found


def manager(system: System) -> list[psutil.Process]:
    return system.processes("ray::HAProxyManager")


async def is_back(system: System) -> bool:
    """Return whether Serve's front answers for both services."""
    async with httpx.AsyncClient(base_url=system.url, timeout=10) as client:
        try:
            answers = [await client.get(path) for path in ("/health", "/api/traffic/health")]
        except httpx.HTTPError:
            return False
    return all(answer.status_code == 200 for answer in answers)


class Clients:
    """Two that ask the inference service, each time with a key, and two that ask the gateway.

    Attributes:
        answered: when the answers came. Anything but an answer of the policy is a failed test.
    """

    def __init__(self, edge: Edge, run: str) -> None:
        self.answered: list[float] = []
        self._urls, self._run = edge.urls(), run
        self._stop = asyncio.Event()

    async def __aenter__(self) -> Clients:
        ways = [self._predict, self._decide] * 2
        self._tasks = [asyncio.create_task(way(f"{self._run}.{n}")) for n, way in enumerate(ways)]
        await self.more(100)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        await asyncio.gather(*self._tasks)

    async def more(self, n_answers: int) -> None:
        target = len(self.answered) + n_answers
        async with asyncio.timeout(30):
            while len(self.answered) < target:
                await asyncio.sleep(0.05)
                self.check()

    def check(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()

    async def _predict(self, run: str) -> None:
        async with httpx.AsyncClient(base_url=self._urls["inference"], timeout=10) as client:
            body = {"junction_id": JUNCTION, "obs_data": [1, 0, 1, 0.4]}
            while not self._stop.is_set():
                headers = {"X-Simulation-Run": run, "Idempotency-Key": uuid.uuid4().hex}
                answer = await client.post("/predict_action", json=body, headers=headers)
                assert answer.status_code == 200, answer.text
                self.answered.append(time.monotonic())

    async def _decide(self, run: str) -> None:
        async with httpx.AsyncClient(base_url=self._urls["gateway"], timeout=10) as client:
            token = (await client.post("/api/auth/login", json=USER)).json()["accessToken"]
            client.headers["Authorization"] = f"Bearer {token}"
            body = {"junctionId": JUNCTION, "observations": [1, 0, 1, 0.4]}
            while not self._stop.is_set():
                headers = {"X-Simulation-Run": run, "Idempotency-Key": uuid.uuid4().hex}
                answer = await client.post("/api/traffic/action", json=body, headers=headers)
                assert answer.status_code == 200, answer.text
                assert answer.json()["status"] == "success"
                self.answered.append(time.monotonic())


async def test_without_it_an_encoded_path_leads_to_no_other_service(system, edge):
    """Ray's Python proxy, which then takes its place, routes by the decoded path."""
    gateway = edge.urls()["gateway"]
    before, away = front(system), 0
    async with httpx.AsyncClient(timeout=10) as client, asyncio.timeout(BACK_S):
        for process in before:
            system.kill(process)
        while front(system) == before or not await is_back(system):
            answer = await client.get(f"{gateway}/api/%6coans?mobileNumber=4354437687")
            assert (answer.status_code, answer.json()["message"]) == (404, "Not Found")
            away += 1
    assert away


@pytest.mark.parametrize("victim", [front, manager])
async def test_its_death_goes_unnoticed(system, edge, run_id, victim):
    before = front(system)
    async with Clients(edge, run_id) as clients:
        (process,) = victim(system)
        system.kill(process)
        async with asyncio.timeout(BACK_S):
            while front(system) == before or not await is_back(system):
                clients.check()
                await asyncio.sleep(0.1)
        await clients.more(100)
    gap = max(later - earlier for earlier, later in itertools.pairwise(sorted(clients.answered)))
    assert gap < AWAY_S
