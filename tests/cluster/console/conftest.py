"""The console on the running system."""

from collections.abc import Iterator

import httpx
import pytest

from load_tests.harness.shipped import shipped_application
from load_tests.harness.system import System, application
from tests.cluster.gateway.conftest import ENVIRONMENT, USER, gateway


@pytest.fixture(scope="package")
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
