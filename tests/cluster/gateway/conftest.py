"""Gateways on the running system, with one inference service or another behind them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from load_tests.harness.shipped import shipped_application
from load_tests.harness.system import System
from tests.cluster.gateway.fake_inference import FakeInference

USER = {"username": "ann", "password": "correct horse"}
ENVIRONMENT = {
    "JWT_SECRET": "0123456789abcdef0123456789abcdef",
    "JWT_AUTH_USERNAME": USER["username"],
    "JWT_AUTH_PASSWORD": USER["password"],
}


def gateway(
    name: str, prefix: str, replicas: int = 1, env: dict[str, str] | None = None, **args: object
) -> dict[str, Any]:
    """Return the shipped gateway with another name, place, environment and arguments."""
    env = ENVIRONMENT | (env or {})
    return shipped_application(
        "gateway", called=name, prefix=prefix, replicas=replicas, args=args, env=env
    )


@pytest.fixture(scope="session")
def fake() -> Iterator[FakeInference]:
    fake = FakeInference()
    yield fake
    fake.close()


@pytest.fixture(scope="package")
def gateways(system: System, fake: FakeInference) -> Iterator[System]:
    deployed = [
        gateway("gateway", "/api", replicas=2),
        gateway(
            "gateway-http",
            "/http/api",
            env={"RL_INFERENCE_SERVICE_URL": fake.url},
            deadline_s=0.5,
        ),
        gateway("gateway-late", "/late/api", inference_app="late"),
        gateway("gateway-safe", "/safe/api", inference_app="none", fallback="plan", safety=True),
    ]
    system.deploy(*deployed)
    yield system
    system.remove(*(each["name"] for each in deployed))


@pytest.fixture
def connect(gateways: System) -> Iterator[Callable[[str], httpx.Client]]:
    """Connect to a gateway by its prefix, with a token."""
    opened: list[httpx.Client] = []

    def connect(prefix: str) -> httpx.Client:
        client = httpx.Client(base_url=gateways.url + prefix, timeout=10)
        opened.append(client)
        token = client.post("/auth/login", json=USER).raise_for_status().json()["accessToken"]
        client.headers["Authorization"] = f"Bearer {token}"
        return client

    yield connect
    for client in opened:
        client.close()


def wait_for(condition: Callable[[], bool], timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.05)
