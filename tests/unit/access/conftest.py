"""A key, a clock, a store in memory, and tokens of the test's own making."""

import jwt
import pytest

from deployments.access.tokens import ISSUER
from tests.support.virtual_time import Clock
from tests.unit.access.memory_store import MemoryStore

SECRET = b"0123456789abcdef" * 4
NOW = 1_700_000_000


def forge(
    secret: object = SECRET, algorithm: str = "HS256", kid: str | None = None, **changes: object
) -> str:
    """Sign claims, the changed ones included; ``...`` leaves one out."""
    claims = {"sub": "ann", "iss": ISSUER, "iat": NOW, "exp": NOW + 60} | changes
    present = {name: value for name, value in claims.items() if value is not ...}
    key = secret if algorithm != "none" else ""
    return jwt.encode(present, key, algorithm, None if kid is None else {"kid": kid})  # type: ignore[arg-type]


@pytest.fixture
def clock():
    return Clock(NOW)


@pytest.fixture
def store():
    return MemoryStore()
