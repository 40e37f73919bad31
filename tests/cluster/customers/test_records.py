"""Customer records behind several Serve replicas: races."""

from collections.abc import Iterator
from typing import Any

import pytest

from load_tests.harness.redis_server import RedisServer
from load_tests.harness.shipped import shipped_application
from load_tests.harness.system import System
from tests import races

STORES = ["sqlite", "redis"]


def records(name: str, store_url: str) -> dict[str, Any]:
    """Return an application of serve_config.yaml, on two replicas and a store of the test's own."""
    return shipped_application(name, replicas=2, env={"STORE_URL": store_url})


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis")).start()
    yield server
    server.stop()


@pytest.fixture(scope="module", params=STORES)
def url(
    request: pytest.FixtureRequest,
    system: System,
    redis_server: RedisServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """Serve loans on two replicas, once on each store."""
    sqlite = f"sqlite:///{tmp_path_factory.mktemp('records') / 'records.db'}"
    store_url = sqlite if request.param == "sqlite" else redis_server.url
    system.deploy(records("loans", store_url))
    yield f"{system.url}/api/loans"
    system.remove("loans")


async def test_of_50_concurrent_creates_one_succeeds(url):
    await races.creates_of_one_mobile_number([url], "4354437001")


async def test_concurrent_updates_never_mix_fields(url):
    await races.updates_of_one_record([url], "4354437002")


async def test_one_of_many_updates_gets_a_mobile_number(url):
    await races.updates_to_one_mobile_number([url], [f"43544371{n:02}" for n in range(9)])
