"""``/livez`` and ``/readyz`` of every service in a real cluster whose store goes and returns."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from load_tests.harness.redis_server import RedisServer
from load_tests.harness.shipped import shipped_application
from load_tests.harness.system import System, application

GONE = "The store does not serve."
SECRET = "0123456789abcdef0123456789abcdef"
STEP = {"junction_id": "300839359", "obs_data": [0.5]}
ON_REDIS = {"probed": "/probed", "gateway": "/api", "loans": "/api/loans"}
FORECASTS = {"density": "/density", "flow": "/flow"}


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis")).start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def url(system: System, redis: RedisServer) -> Iterator[str]:
    env = {"STORE_URL": redis.url, "JWT_SECRET": SECRET}
    system.deploy(
        application("probed", ON_REDIS["probed"], env=env),
        *(shipped_application(name, env=env) for name in ("gateway", "loans")),
        *map(shipped_application, FORECASTS),
    )
    yield system.url
    system.remove(*ON_REDIS, *FORECASTS)


async def asked(client: httpx.AsyncClient, path: str) -> httpx.Response | None:
    """Return the answer; None when the replica died over it."""
    try:
        return await client.get(path)
    except httpx.TransportError:
        return None


async def ready(client: httpx.AsyncClient, prefix: str, status: int) -> dict[str, str]:
    """Wait until a service answers with this status; return its checks."""
    async with asyncio.timeout(20):
        while (answer := await asked(client, f"{prefix}/readyz")) is None or (
            answer.status_code != status
        ):
            await asyncio.sleep(0.1)
    assert answer.json()["status"] == ("ready" if status == 200 else "not ready")
    checks: dict[str, str] = answer.json()["checks"]
    return checks


async def is_alive(client: httpx.AsyncClient, prefix: str) -> bool:
    answer = await client.get(f"{prefix}/livez")
    return answer.status_code == 200 and answer.json()["status"] == "alive"


async def test_without_redis_all_live_and_go_on_and_say_what_is_missing(
    url: str, redis: RedisServer
) -> None:
    async with httpx.AsyncClient(base_url=url, timeout=10) as client:
        for prefix in (*ON_REDIS.values(), *FORECASTS.values()):
            assert set((await ready(client, prefix, 200)).values()) == {"ok"}
            assert await is_alive(client, prefix)
        assert (await client.post("/probed/predict_action", json=STEP)).status_code == 200
        redis.kill()
        try:
            for prefix in ON_REDIS.values():
                checks = await ready(client, prefix, 503)
                assert checks.pop("store") == GONE
                checks.pop("revocations", None)  # which are read from it, a moment later
                assert set(checks.values()) <= {"ok"}, "nothing else is missing"
                assert await is_alive(client, prefix)
            for prefix in FORECASTS.values():
                assert (await client.get(f"{prefix}/readyz")).status_code == 200
            step = await client.post("/probed/predict_action", json=STEP)
            assert step.headers["x-hidden-state-step"] == "2", "who owns a state steps on"
        finally:
            redis.start()
        for prefix in ON_REDIS.values():
            assert set((await ready(client, prefix, 200)).values()) == {"ok"}


async def test_a_replica_that_starts_without_its_sqlite_file_lives_and_waits_for_it(
    system: System, tmp_path: Path
) -> None:
    folder, away = tmp_path / "disk", tmp_path / "unmounted"
    env = {"STORE_URL": f"sqlite:///{folder / 'store.db'}"}
    system.deploy(shipped_application("cards", env=env))
    try:
        async with httpx.AsyncClient(base_url=system.url, timeout=10) as client:
            assert await ready(client, "/api/cards", 200) == {"store": "ok"}
            folder.rename(away)
            folder.write_text("no folder")
            system.kill(system.replicas("cards")[0])
            assert await ready(client, "/api/cards", 503) == {"store": GONE}
            assert await is_alive(client, "/api/cards")
            folder.unlink()
            away.rename(folder)
            assert await ready(client, "/api/cards", 200) == {"store": "ok"}
    finally:
        system.remove("cards")
