"""One system of `greenwave up`, with every secret set, on Redis with a password."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from load_tests.harness.redis_server import RedisServer
from load_tests.harness.system_under_test import SystemUnderTest, system_under_test

NAMES = ("JWT_SECRET", "JWT_AUTH_PASSWORD", "INFERENCE_TOKEN", "RAY_AUTH_TOKEN")


@pytest.fixture(scope="package")
def known() -> dict[str, str]:
    """Make the secrets that the system is started with; tests add those that it issues."""
    return {name: secrets.token_urlsafe(32) for name in (*NAMES, "the password of Redis")}


@pytest.fixture(scope="package")
def sut(
    known: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SystemUnderTest]:
    folder = tmp_path_factory.mktemp("redis")
    password = known["the password of Redis"]
    (folder / "password.conf").write_text(f"requirepass {password}\n")
    redis = RedisServer(folder, "--include", str(folder / "password.conf"))
    settings = {name: known[name] for name in NAMES} | {
        "STORE_URL": f"redis://:{password}@127.0.0.1:{redis.port}/0",
        "JWT_AUTH_USERNAME": "operator",
        "RAY_AUTH_MODE": "token",
        "ACCESS_LOG_SHARE": "1",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_TOKEN", known["RAY_AUTH_TOKEN"])
        with system_under_test(settings, redis) as sut:
            yield sut
