"""kill -9 of Serve's front, and of the actor that keeps it, while clients ask through the edge."""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections.abc import Iterator

import httpx
import psutil
import pytest

from serve_app.launcher.edge import Edge, EdgePorts
from testbed.system import System

BODY = {"junction_id": "300839359", "obs_data": [1, 0, 1, 0.4]}
AWAY_S = 1.0
BACK_S = 60.0


@pytest.fixture(scope="module")
def edge(system: System) -> Iterator[Edge]:
    edge = Edge(system.instance, EdgePorts.from_base(system.instance.ports.http))
    edge.start()
    yield edge
    edge.stop()


def front(system: System) -> list[psutil.Process]:
    """Return Serve's own HAProxy: its configuration lies beside Ray's logs, the edge's does not."""
    ours = (each for each in system.instance.processes() if each.name() == "haproxy")
    return [each for each in ours if str(system.instance.temp_dir) in " ".join(each.cmdline())]


def manager(system: System) -> list[psutil.Process]:
    return system.processes("ray::HAProxyManager")


async def answers_of(client: httpx.AsyncClient, run: str, until: asyncio.Event) -> list[float]:
    """Ask with a key each time; return when answers were received, all of them 200."""
    received = []
    while not until.is_set():
        headers = {"X-Simulation-Run": run, "Idempotency-Key": uuid.uuid4().hex}
        answer = await client.post("/predict_action", json=BODY, headers=headers)
        assert answer.status_code == 200, answer.text
        received.append(time.monotonic())
        await asyncio.sleep(0.01)
    return received


@pytest.mark.parametrize("victim", [front, manager])
async def test_its_death_goes_unnoticed(system, edge, run_id, victim):
    stop = asyncio.Event()
    async with httpx.AsyncClient(base_url=edge.urls()["inference"], timeout=10) as client:
        clients = [asyncio.create_task(answers_of(client, f"{run_id}.{n}", stop)) for n in range(4)]
        await asyncio.sleep(1)
        before = front(system)
        (process,) = victim(system)
        system.kill(process)
        killed = time.monotonic()
        while not (await is_back(system) and front(system) != before):
            assert time.monotonic() < killed + BACK_S
            for task in clients:
                if task.done():
                    task.result()
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        stop.set()
        received = sorted(itertools.chain(*await asyncio.gather(*clients)))
    gap = max(later - earlier for earlier, later in itertools.pairwise(received))
    assert gap < AWAY_S


async def is_back(system: System) -> bool:
    async with httpx.AsyncClient(base_url=system.url, timeout=10) as client:
        try:
            return (await client.get("/health")).status_code == 200
        except httpx.HTTPError:
            return False
