"""A system that cannot be loaded is refused with a message that says what to do."""

import json
import socket
from collections.abc import Iterator

import pytest

from greenwave.client import Addresses
from load_tests.scenarios.target import LoadTestError, Target, find_target
from tests.support.local_server import Answer, Request, json_answer, serving


def answer(asked: Request) -> Answer:
    """Admit only ``operator`` with the password ``right``."""
    if asked.path != "/api/auth/login":
        return json_answer(200, {})
    if json.loads(asked.body)["password"] == "right":
        return json_answer(200, {"accessToken": "token", "expiresIn": 3600})
    return json_answer(401, {"message": "Invalid username or password"})


@pytest.fixture
def gateway() -> Iterator[str]:
    with serving(answer) as url:
        yield url


def target(url: str, password: str = "right") -> Target:
    return Target(Addresses.at(url), "operator", password, list)


def test_a_user_of_the_gateway_gets_a_token_and_another_one_a_sentence(gateway):
    assert target(gateway).token() == "token"
    with pytest.raises(LoadTestError, match="refuses this user and password"):
        target(gateway, "wrong").token()


def test_where_nothing_runs_that_is_said():
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(LoadTestError, match=f"No system is ready at {url}"):
        target(url).token()


def test_credentials_are_those_of_the_instance_and_the_address_if_none_is_given(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    for name in ("JWT_AUTH_USERNAME", "JWT_AUTH_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(LoadTestError, match=f"{tmp_path}/ports-23000 has none"):
        find_target(23000, None)
    monkeypatch.setenv("JWT_AUTH_USERNAME", "somebody")
    monkeypatch.setenv("JWT_AUTH_PASSWORD", "secret")
    found = find_target(23000, None)
    at = Addresses.of_edge("127.0.0.1", port_base=23000)
    assert (found.addresses, found.username, found.password) == (at, "somebody", "secret")
    elsewhere = "http://elsewhere:8000"
    assert find_target(23000, elsewhere).addresses == Addresses.at(elsewhere)
    with pytest.raises(LoadTestError, match="'localhost:8000'"):
        find_target(None, "localhost:8000")
