"""Gateways on the running system, with one inference service or another behind them."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from load_tests.harness.shipped import shipped_application
from load_tests.harness.system import System

OPERATOR = {"JWT_AUTH_USERNAME": "operator", "JWT_AUTH_PASSWORD": "PRINTED_BY_MAKE_UP"}
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


@pytest.fixture(scope="package")
def gateways(system: System) -> Iterator[System]:
    deployed = [
        gateway("gateway", "/api", replicas=2),
        gateway("gateway-late", "/late/api", inference_app="late"),
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
