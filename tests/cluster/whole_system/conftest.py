"""One system of `greenwave up`, with every secret set, on Redis with a password.

Besides the shipped applications it has a second policy service, ``/durable``, whose answers wait
for the store, on two shards.
"""

import secrets
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from greenwave.client import Addresses
from load_tests.harness.redis_server import RedisServer
from load_tests.harness.shipped import Config, shipped_application, shipped_config
from load_tests.harness.system import QUICK
from load_tests.harness.system_under_test import SystemUnderTest, system_under_test
from tests.support.trace_collector import Collector, collecting

NAMES = ("JWT_SECRET", "JWT_AUTH_PASSWORD", "INFERENCE_TOKEN", "RAY_AUTH_TOKEN")
OPERATOR = "operator"
DURABLE = {"durability": "durable", "shards": 2}
# Later files kill more; the last one stops the system.
ORDER = (
    "states",
    "documentation",
    "access",
    "console",
    "policies",
    "rollouts",
    "faults",
    "restart",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what kills, and what stops the system, behind everything else."""
    places = {f"test_{name}.py": place for place, name in enumerate(ORDER)}
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    for item in here:
        item.add_marker(pytest.mark.timeout(900))  # a start of everything on a busy machine
    rest = [item for item in items if item not in here]
    items[:] = rest + sorted(here, key=lambda item: places[item.path.name])


@pytest.fixture(scope="package")
def known() -> dict[str, str]:
    """Make the secrets that the system is started with; tests add those that it issues."""
    return {name: secrets.token_urlsafe(32) for name in (*NAMES, "the password of Redis")}


@pytest.fixture(scope="package")
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


def whole_config() -> Config:
    """Return the shipped config with the second policy service."""
    config = shipped_config()
    durable = shipped_application(
        "inference", called="inference-durable", prefix="/durable", replicas=2, args=DURABLE
    )
    config["applications"].append(durable)
    return config


@pytest.fixture(scope="package")
def sut(
    known: dict[str, str],
    collector: Collector,
    policy_file: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SystemUnderTest]:
    folder = tmp_path_factory.mktemp("redis")
    password = known["the password of Redis"]
    (folder / "password.conf").write_text(f"requirepass {password}\n")
    redis = RedisServer(folder, "--include", str(folder / "password.conf"))
    settings = {name: known[name] for name in NAMES} | {
        "STORE_URL": f"redis://:{password}@127.0.0.1:{redis.port}/0",
        "JWT_AUTH_USERNAME": OPERATOR,
        "RAY_AUTH_MODE": "token",
        "ACCESS_LOG_SHARE": "1",
        "LOG_FORMAT": "json",
        "MAPPO_AGENT_PATH": str(policy_file),
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_TRACES_SAMPLER_ARG": "0",
        **QUICK,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_TOKEN", known["RAY_AUTH_TOKEN"])
        with system_under_test(settings, redis, whole_config()) as sut:
            yield sut


@pytest.fixture(scope="package")
def addresses(sut: SystemUnderTest) -> Addresses:
    return Addresses.of_edge("127.0.0.1", port_base=sut.port_base)


@pytest.fixture
def inference(sut: SystemUnderTest) -> Iterator[httpx.Client]:
    """Connect to the inference service at the edge, with its token."""
    with httpx.Client(
        base_url=sut.instance.base_url, headers=sut.inference_access(), timeout=30
    ) as client:
        yield client


@pytest.fixture
def gateway(sut: SystemUnderTest) -> Iterator[httpx.Client]:
    """Connect to the gateway at the edge, with a user's token."""
    headers = {"Authorization": f"Bearer {sut.log_in()}"}
    url = f"{sut.edge.urls()['gateway']}/api"
    with httpx.Client(base_url=url, headers=headers, timeout=30) as client:
        yield client
