from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from deployments.inference.api import create_app
from deployments.inference.service import InferenceService
from tests.support.local_states import local_engine
from tests.unit.inference.replicas import FORM, Replicas, running, save_policies
from tests.unit.inference.serving import client_of


@pytest.fixture
async def empty_service() -> AsyncIterator[InferenceService]:
    """Run a service without a policy."""
    with local_engine(FORM) as engine:
        service = InferenceService(engine)
        yield service
        await service.close()


@pytest.fixture
async def alone(policy_folder: Path) -> AsyncIterator[Replicas]:
    """Run one replica, which serves first.th."""
    async with running(1, policy_folder) as replicas:
        yield replicas


@pytest.fixture
def service(alone: Replicas) -> InferenceService:
    return alone.services[0]


@pytest.fixture
async def client(service: InferenceService) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(create_app(service)) as client:
        yield client


@pytest.fixture(scope="session")
def policy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policies")
    save_policies(folder)
    return folder


@pytest.fixture
def policy_file(policy_folder: Path) -> Path:
    return policy_folder / "first.th"


@pytest.fixture
async def replicas(policy_folder: Path) -> AsyncIterator[Replicas]:
    async with running(2, policy_folder) as replicas:
        yield replicas
