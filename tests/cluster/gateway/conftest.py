"""Gateways on the running system, with one inference service or another behind them."""

from collections.abc import Iterator
from typing import Any

import pytest

from load_tests.harness.shipped import shipped_application
from load_tests.harness.system import System, application

USER = {"username": "operator", "password": "correct horse"}
ENVIRONMENT = {
    "JWT_SECRET": "0123456789abcdef0123456789abcdef",
    "JWT_AUTH_USERNAME": USER["username"],
    "JWT_AUTH_PASSWORD": USER["password"],
}


def gateway(name: str, prefix: str, replicas: int = 1, **args: object) -> dict[str, Any]:
    """Return the shipped gateway with another name, place and arguments, for one user."""
    return shipped_application(
        "gateway", called=name, prefix=prefix, replicas=replicas, args=args, env=ENVIRONMENT
    )


@pytest.fixture
def late(system: System) -> Iterator[System]:
    """Serve an inference application and its gateway, for tests that disturb them."""
    gateway_of_late = gateway("gateway-late", "/late/api", inference_app="late")
    system.deploy(gateway_of_late, application("late", "/late"))
    yield system
    system.remove("late", "gateway-late")
