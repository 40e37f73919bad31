"""A gateway in this process: real tokens, users and store; an inference that obeys the test."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import pytest_asyncio

from deployments.access.audit import AuditBuffer, AuditLog
from deployments.access.control import AccessControl
from deployments.access.keys import Keys
from deployments.access.tokens import Tokens
from deployments.gateway.api import create_app
from deployments.gateway.errors import InferenceUnavailableError
from deployments.gateway.fallbacks import Fallback
from deployments.gateway.inference_calls.batcher import Decided, Step
from deployments.gateway.inference_calls.client import InferenceClient
from deployments.gateway.inference_calls.http_calls import HttpCalls
from deployments.gateway.login import LoginLimits, Logins
from deployments.gateway.service import GatewayService
from deployments.gateway.users import Users, hash_password
from deployments.store import open_store
from models.networks.shipped import SHIPPED
from models.signals.diagnosis import Fault
from tests.unit.access.memory_store import MemoryStore
from tests.unit.http.apps import client_of

SECRET = b"0123456789abcdef0123456789abcdef"
PASSWORD = "correct horse"
PASSWORD_HASH = hash_password(PASSWORD)
DEADLINE_S = 2.0
LIMITS = LoginLimits(per_user=3, per_address=6, window_s=60)


def make_tokens() -> Tokens:
    return Tokens(Keys.of_secret(SECRET), lifetime_s=3600, clock_skew_s=5)


def access_by(tokens: Tokens, audit: AuditBuffer | None = None) -> AccessControl:
    kept = audit or AuditBuffer(AuditLog(MemoryStore().as_store()))
    return AccessControl(tokens, lambda: tokens.keys, kept)


@dataclass
class FakeInference(HttpCalls):
    """Calls whose answers the test sets."""

    action: int = 2
    failed_detectors: dict[str, Fault] = field(default_factory=dict)
    status: str = "healthy"
    error: Exception | None = None
    steps: list[Step] = field(default_factory=list)
    resets: list[tuple[str | None, str, str | None]] = field(default_factory=list)

    async def step(self, steps: Sequence[Step]) -> Sequence[Decided]:
        self.steps += steps
        if self.error:
            raise self.error
        return [Decided(self.action, self.failed_detectors)] * len(steps)

    async def reset(self, run: str | None, key: str, request_id: str | None) -> None:
        self.resets.append((run, key, request_id))
        if self.error:
            raise self.error

    async def health(self) -> str:
        if isinstance(self.error, InferenceUnavailableError):
            raise self.error
        return self.status

    async def close(self) -> None: ...


@pytest.fixture
def inference():
    return FakeInference()


@pytest.fixture
def tokens():
    return make_tokens()


@pytest_asyncio.fixture
async def store(tmp_path):
    opened = open_store(f"sqlite:///{tmp_path}/store.db")
    yield opened
    await opened.close()


@pytest.fixture
def fallback():
    return Fallback()


@pytest.fixture
def guard():
    return None


@pytest.fixture
def network():
    return SHIPPED


@pytest_asyncio.fixture
async def service(store, tokens, inference, fallback, guard, network):
    logins = Logins(store, Users(store, {"ann": PASSWORD_HASH}), tokens, LIMITS)
    client = InferenceClient(inference, DEADLINE_S)
    access = access_by(tokens, AuditBuffer(AuditLog(store)))
    made = GatewayService(logins, access, client, fallback, guard, network)
    yield made
    await made.close()


@pytest.fixture
def app(service):
    return create_app(service)


@pytest_asyncio.fixture
async def client(app):
    async with client_of(app) as client:
        yield client


@pytest.fixture
def bearer(tokens):
    return {"Authorization": f"Bearer {tokens.issue('ann')}"}


@pytest.fixture
def login(client):
    def login(username="ann", password=PASSWORD, address="203.0.113.9"):
        body = {"username": username, "password": password}
        return client.post("/auth/login", json=body, headers={"X-Forwarded-For": address})

    return login


@pytest.fixture
def act(client, bearer):
    """Ask for a decision on a junction, with further fields in the body."""

    async def act(junction_id="300839359", **fields):
        body = {"junctionId": junction_id, "observations": [1], **fields}
        return await client.post("/traffic/action", json=body, headers=bearer)

    return act
