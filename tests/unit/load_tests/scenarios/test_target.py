"""A system that cannot be loaded is refused with a message that says what to do."""

import socket

import pytest

from greenwave.client import Addresses
from load_tests.scenarios.target import LoadTestError, Target, find_target


def test_where_nothing_runs_that_is_said():
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(LoadTestError, match=f"No system is ready at {url}"):
        Target(Addresses.at(url), "operator", "secret", list).token()


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
