"""The running system with an edge for a browser to look at."""

import pytest

from load_tests.harness.shipped import shipped_application
from load_tests.harness.system import application
from tests.cluster.gateway.conftest import ENVIRONMENT, gateway

DIAGNOSING = "/diagnosing"


@pytest.fixture(scope="package")
def edge(chromium, system):
    """Serve one service of each kind behind the edge."""
    others = [shipped_application(name) for name in ("density", "flow", "loans")]
    others.append(shipped_application("console", env=ENVIRONMENT))
    diagnosing = application("diagnosing", DIAGNOSING, diagnose_detectors=True)
    before = dict(system.applications)
    system.deploy(diagnosing, gateway("gateway", "/api"), *others)
    edge = system.start_edge()
    yield edge
    edge.stop()
    system.applications = before
    system.deploy()
