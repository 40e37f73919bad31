"""The policy on several replicas and on several shards of states, on the running system."""

from collections.abc import Iterator

import httpx
import pytest

from load_tests.harness.system import System, application
from models.networks.shipped import JUNCTIONS


@pytest.fixture(scope="package")
def several(system: System) -> Iterator[None]:
    """Serve three replicas below ``/many``, and two with two shards below ``/durable``."""
    system.deploy(
        application("many", "/many", replicas=3),
        application("durable", "/durable", replicas=2, durability="durable", shards=2),
    )
    yield
    system.remove("many", "durable")


def step(system: System, prefix: str, run: str) -> int:
    """Make a step of an application, and return its number; 0 if it was refused with 503."""
    response = httpx.post(
        f"{system.url}/{prefix}/predict_action",
        json={"junction_id": next(iter(JUNCTIONS)), "obs_data": [0.5]},
        headers={"X-Simulation-Run": run},
        timeout=60,
    )
    assert response.status_code in (200, 503)
    return int(response.headers.get("X-Hidden-State-Step", 0))
