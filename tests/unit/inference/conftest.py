from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import torch

from deployments.inference.api import create_app
from deployments.inference.options import InferenceOptions
from deployments.inference.service import InferenceService
from deployments.stateful.replica.engine import StatefulEngine
from deployments.stateful.replica.leases import StateLeases
from models.policy.form import HIDDEN_DIM
from tests.unit.inference.policies import WEIGHTS
from tests.unit.stateful.authorities import make_authority


@pytest.fixture(scope="session")
def policy_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("policy") / "agent.th"
    torch.save(WEIGHTS, path)
    return path


@pytest.fixture
async def empty_service() -> AsyncIterator[InferenceService]:
    """Make a service without a policy, with its authority and a store in the same event loop."""
    settings = InferenceOptions()
    authority = await make_authority(settings)
    leases = StateLeases(authority, "replica", HIDDEN_DIM, settings)
    service = InferenceService(StatefulEngine([leases]), settings)
    await service.leases.start()
    yield service
    await service.close()
    authority.stop()


@pytest.fixture
async def service(empty_service: InferenceService, policy_file: Path) -> InferenceService:
    await empty_service.policies.primary.slot.load(str(policy_file))
    return empty_service


@pytest.fixture
async def client(service: InferenceService) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app(service, InferenceOptions()))
    async with httpx.AsyncClient(transport=transport, base_url="http://inference") as client:
        yield client
