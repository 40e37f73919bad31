"""What the services do is seen in the console, and what browsers do is not felt by the services."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest

from load_tests.harness.shipped import shipped_application
from load_tests.harness.system import System, application
from tests.cluster.gateway.conftest import ENVIRONMENT, USER, gateway

BODY = {"junction_id": "300839359", "obs_data": [1, 0, 1, 0.25, 0.5, 0, 0.125, 0.75]}
FEED = "ray::ConsoleFeed"


@pytest.fixture(scope="module")
def console(system: System) -> Iterator[System]:
    console = shipped_application("console", env=ENVIRONMENT)
    several = application("many", "/many", replicas=3)
    system.deploy(gateway("gateway", "/api", replicas=2), several, console)
    yield system
    system.remove("gateway", "many", "console")


@pytest.fixture
def token(console: System) -> str:
    answer = httpx.post(f"{console.url}/api/auth/login", json=USER, timeout=10)
    return str(answer.raise_for_status().json()["accessToken"])


async def views(system: System, token: str, run: str = "") -> AsyncGenerator[dict[str, Any], None]:
    """Yield what the page shows: it asks for the next stream when one ends, after half a minute."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=system.url, timeout=20, headers=headers) as client:
        while True:
            async with client.stream("GET", "/console/stream", params={"run": run}) as answer:
                assert answer.status_code == 200
                async for line in answer.aiter_lines():
                    if line.startswith("data: "):
                        yield json.loads(line.removeprefix("data: "))


async def wait_until(
    seen: AsyncIterator[dict[str, Any]], true: Callable[[dict[str, Any]], object]
) -> dict[str, Any]:
    async with asyncio.timeout(60):
        async for view in seen:
            if true(view):
                return view
    raise AssertionError("the stream ended before")


async def decide(system: System, run: str) -> None:
    async with httpx.AsyncClient(base_url=system.url, timeout=10) as client:
        answer = await client.post("/predict_action", json=BODY, headers={"X-Simulation-Run": run})
        answer.raise_for_status()


def of(app: str) -> Callable[[dict[str, Any]], list[str]]:
    def states(view: dict[str, Any]) -> list[str]:
        return sorted(each["state"] for each in view["replicas"] or [] if each["app"] == app)

    return states


async def test_the_console_outlives_its_feed_and_its_replica(console, token, run_id):
    for title in (FEED, "ray::ServeReplica:console:"):
        await wait_for_a_decision(console, token, run_id)
        console.processes(title)[0].kill()
    await wait_for_a_decision(console, token, run_id)


async def test_a_feed_that_hangs_is_not_felt_and_goes_on(console, token, run_id):
    await wait_for_a_decision(console, token, run_id)
    (feed,) = console.processes(FEED)
    async with contextlib.aclosing(views(console, token, run_id)) as seen:
        await wait_until(seen, lambda view: view["rates"]["requests_per_s"])
        feed.suspend()
        try:
            for _ in range(200):
                await decide(console, run_id)
            await wait_until(seen, lambda view: "SILENT" in of("many")(view))
        finally:
            feed.resume()
    await wait_for_a_decision(console, token, run_id)


async def wait_for_a_decision(system: System, token: str, run: str) -> None:
    async with asyncio.timeout(90):
        while not await sees_a_decision(system, token, run):
            await asyncio.sleep(0.2)


async def sees_a_decision(system: System, token: str, run: str) -> bool:
    with contextlib.suppress(httpx.HTTPError, AssertionError, TimeoutError):
        async with asyncio.timeout(15), contextlib.aclosing(views(system, token, run)) as seen:
            async for view in seen:
                await decide(system, run)
                if view["decisions"]:
                    return True
    return False
