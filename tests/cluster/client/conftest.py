"""Every service on the running system, at one URL."""

from collections.abc import Iterator

import pytest

from load_tests.harness.shipped import shipped_application
from load_tests.harness.system import System
from tests.cluster.gateway.conftest import OPERATOR, gateway

OTHERS = ["density", "flow", "accounts", "loans", "cards"]


@pytest.fixture(scope="package")
def whole(system: System) -> Iterator[System]:
    before = dict(system.applications)
    others = [shipped_application(name) for name in OTHERS]
    system.deploy(gateway("gateway", "/api", env=OPERATOR), *others)
    yield system
    system.applications = before
    system.deploy()
