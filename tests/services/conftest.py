"""All services without Ray, behind the edge as it is shipped; see tests/services/system.py."""

import uuid
from collections.abc import Iterator

import httpx
import pytest

from greenwave.client import Addresses
from serve_app.demo.connect import addresses_at
from tests.services.system import Services, running_services
from tests.support.browser import browser as browser
from tests.support.browser import chromium as chromium
from tests.unit.gateway.conftest import make_tokens


@pytest.fixture(scope="session")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with running_services(tmp_path_factory.mktemp("system"), make_tokens()) as running:
        yield running


@pytest.fixture(scope="session")
def addresses(system: Services) -> Addresses:
    return addresses_at(system.edge.urls())


@pytest.fixture
def inference(addresses: Addresses) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=addresses.inference, timeout=30) as client:
        yield client


@pytest.fixture
def run_id(request: pytest.FixtureRequest) -> str:
    """Name a separate simulation run."""
    return f"{request.node.originalname[:30]}.{uuid.uuid4().hex[:8]}"
