"""A system that cannot be loaded is refused with a message that says what to do."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from greenwave.client import Addresses
from load_tests.scenarios.target import LoadTestError, Target, find_target


class Gateway(BaseHTTPRequestHandler):
    """Admits only ``operator`` with the password ``right``."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path != "/api/auth/login":
            self.answer(200, {})
        elif json.loads(body)["password"] == "right":
            self.answer(200, {"accessToken": "token", "expiresIn": 3600})
        else:
            self.answer(401, {"message": "Invalid username or password"})

    def answer(self, status: int, content: dict[str, object]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def gateway() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Gateway) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def target(url: str, password: str = "right") -> Target:
    return Target(Addresses.at(url), "operator", password, list)


def test_who_may_come_in_can_load(gateway):
    target(gateway).check()


def test_a_wrong_password_is_told_of(gateway):
    with pytest.raises(LoadTestError, match="refuses this user and password"):
        target(gateway, "wrong").check()


def test_where_nothing_runs_that_is_said():
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(LoadTestError, match=f"No system is ready at {url}"):
        target(url).check()


def test_what_is_no_address_is_told_of(tmp_path, monkeypatch):
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    monkeypatch.setenv("JWT_AUTH_USERNAME", "somebody")
    monkeypatch.setenv("JWT_AUTH_PASSWORD", "secret")
    with pytest.raises(LoadTestError, match="'localhost:8000'"):
        find_target(None, "localhost:8000")


def test_a_folder_without_a_password_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    for name in ("JWT_AUTH_USERNAME", "JWT_AUTH_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(LoadTestError, match=f"{tmp_path}/ports-23000 has none"):
        find_target(23000, None)


def test_credentials_and_address_are_those_of_the_instance(tmp_path, monkeypatch):
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    monkeypatch.setenv("JWT_AUTH_USERNAME", "somebody")
    monkeypatch.setenv("JWT_AUTH_PASSWORD", "secret")
    found = find_target(23000, None)
    at = Addresses.of_edge("127.0.0.1", port_base=23000)
    assert (found.addresses, found.username, found.password) == (at, "somebody", "secret")
    assert find_target(23000, "http://elsewhere:8000").addresses == Addresses.at(
        "http://elsewhere:8000"
    )
