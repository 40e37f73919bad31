"""The edge as a process, in front of a server that tells what reached it."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from serve_app.launcher.edge import Edge, EdgePorts
from serve_app.launcher.instance import Instance
from serve_app.launcher.ports import Ports


class Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path.endswith("/dropped"):
            self.close_connection = True
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.rfile.read(int(headers.get("content-length", 0)))
        content = json.dumps({"path": self.path, "method": self.command, "headers": headers})
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content.encode())

    do_POST = do_DELETE = do_GET

    def log_message(self, format: str, *args: object) -> None: ...


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep quiet: HAProxy ends its health checks with a reset."""


def free_ports(number: int) -> list[int]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


@pytest.fixture(scope="module")
def front() -> Iterator[int]:
    server = QuietServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def make_edge(folder: Path, front_port: int, certificate: Path | None = None) -> Edge:
    instance = Instance(folder, Ports(http=front_port))
    return Edge(instance, EdgePorts(*free_ports(4)), certificate=certificate)


@pytest.fixture(scope="module")
def edge(front: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    edge = make_edge(tmp_path_factory.mktemp("edge"), front)
    edge.start()
    yield edge
    edge.stop()


@pytest.mark.parametrize(
    ("listener", "path", "reached"),
    [
        ("gateway", "/api/auth/login", "/api/auth/login"),
        ("gateway", "/api/traffic/action?x=1", "/api/traffic/action?x=1"),
        ("gateway", "/api/docs", "/api/docs"),
        ("gateway", "/api/accounts", "/api/accounts"),
        ("gateway", "/api/accounts/fetch?mobileNumber=1", "/api/accounts/fetch?mobileNumber=1"),
        ("gateway", "/api/account?mobileNumber=1", "/api/accounts/account?mobileNumber=1"),
        ("loans", "/api/loans", "/api/loans"),
        ("loans", "/api/loans/docs", "/api/loans/docs"),
        ("cards", "/api/cards/fetch", "/api/cards/fetch"),
        ("density", "/predict", "/density/predict"),
        ("density", "/model-info", "/density/model-info"),
        ("density", "/health", "/density/health"),
        ("density", "/docs", "/density/docs"),
        ("density", "/openapi.json", "/density/openapi.json"),
        ("density", "/density/openapi.json", "/density/openapi.json"),
        ("density", "/density/predict", "/density/predict"),
        ("density", "/forecast", "/flow/forecast"),
        ("density", "/model_info", "/flow/model_info"),
        ("density", "/flow/docs", "/flow/docs"),
        ("density", "/predict_action", "/density/predict_action"),
    ],
)
def test_a_path_reaches_its_service(edge, listener, path, reached):
    answer = httpx.post(edge.urls()[listener] + path, json={}, timeout=5)
    assert answer.status_code == 200
    assert answer.json()["path"] == reached


@pytest.mark.parametrize(
    ("listener", "path"),
    [
        ("gateway", "/predict_action"),
        ("gateway", "//predict_action"),
        ("gateway", "/density/predict"),
        ("gateway", "/api"),
        ("gateway", "/api/loans/fetch"),
        ("gateway", "/api/cards"),
        ("gateway", "/-/routes"),
        ("loans", "/api/accounts/fetch"),
        ("loans", "/api/loansharks"),
        ("cards", "/api/loans/fetch"),
        ("cards", '/x"y'),
    ],
)
def test_a_port_leads_to_its_own_service_alone(edge, listener, path):
    answer = httpx.get(edge.urls()[listener] + path, timeout=5)
    assert answer.status_code == 404
    body = answer.json()
    if listener == "gateway":
        assert (body["status"], body["message"]) == ("error", "Not Found")
        assert abs(body["timestamp"] - time.time() * 1000) < 60_000
    else:
        assert answer.headers["content-type"] == "application/problem+json"
        assert (body["status"], body["title"]) == (404, "Not Found")


def test_a_client_does_not_choose_its_address(edge):
    spoofed = {"X-Forwarded-For": "6.6.6.6"}
    answer = httpx.get(edge.urls()["gateway"] + "/api/x", headers=spoofed, timeout=5)
    assert answer.json()["headers"]["x-forwarded-for"] == "127.0.0.1"


def test_headers_that_ray_would_act_on_do_not_pass(edge):
    sent = {
        "x-request-id": b"\xff".decode("latin-1"),
        "x-request-timeout-seconds": "0.0001",
        "x-request-disconnect-disabled": "?1",
        "x-session-id": "1",
        "serve_multiplexed_model_id": "1",
    }
    url = edge.urls()["gateway"] + "/api/x"
    received = httpx.get(url, headers=httpx.Headers(sent, "latin-1"), timeout=5).json()["headers"]
    assert not sent.keys() & received.keys()
    received = httpx.get(url, headers={"x-request-id": "abc-1"}, timeout=5).json()["headers"]
    assert received["x-request-id"] == "abc-1"


def test_a_body_that_never_comes_gets_a_408_in_the_form_of_the_service(edge):
    head = b"POST /api/%b HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"
    paths = {"gateway": b"x", "loans": b"loans", "cards": b"cards", "density": b"x"}
    connections = {}
    for name, path in paths.items():
        address = ("127.0.0.1", getattr(edge.ports, name))
        connections[name] = socket.create_connection(address, timeout=30)
        connections[name].sendall(head % path)
    answers = {}
    for name, connection in connections.items():
        with connection:
            answer = HTTPResponse(connection)
            answer.begin()
            assert answer.status == 408
            answers[name] = (answer.headers["content-type"], json.loads(answer.read()))
    problem = {"type": "about:blank", "title": "Request Timeout", "status": 408}
    assert answers["loans"] == answers["cards"] == ("application/problem+json", problem)
    in_time = "The request did not arrive in time"
    assert answers["density"] == ("application/json", {"detail": in_time})
    assert answers["gateway"][1].items() >= {"status": "error", "message": in_time}.items()


def test_a_dropped_request_gets_a_502_in_the_form_of_the_service(edge):
    paths = {"gateway": "/api", "loans": "/api/loans", "cards": "/api/cards", "density": ""}
    answers = {n: httpx.get(f"{edge.urls()[n]}{p}/dropped", timeout=10) for n, p in paths.items()}
    assert {answer.status_code for answer in answers.values()} == {502}
    problem = {"type": "about:blank", "title": "Bad Gateway", "status": 502}
    assert answers["loans"].json() == answers["cards"].json() == problem
    assert answers["density"].json() == {"detail": "Bad gateway"}
    expected = {"status": "error", "message": "Bad gateway"}
    assert answers["gateway"].json().items() >= expected.items()


def test_without_serve_each_service_answers_503_in_its_own_form(tmp_path):
    edge = make_edge(tmp_path, front_port=free_ports(1)[0])
    edge.start()
    try:
        paths = {"gateway": "/api/x", "loans": "/api/loans", "cards": "/api/cards", "density": "/"}
        answers = {n: httpx.get(edge.urls()[n] + p, timeout=10) for n, p in paths.items()}
    finally:
        edge.stop()
    assert {answer.status_code for answer in answers.values()} == {503}
    assert all(answer.headers["retry-after"] == "1" for answer in answers.values())
    assert answers["gateway"].json()["status"] == "error"
    assert answers["loans"].json()["title"] == "Service Unavailable"
    assert answers["density"].json() == {"detail": "Service unavailable"}


def test_with_a_certificate_it_speaks_https(front, tmp_path):
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    command += ["-subj", "/CN=localhost", "-keyout", str(tmp_path / "key")]
    subprocess.run([*command, "-out", str(tmp_path / "crt")], check=True, capture_output=True)
    certificate = tmp_path / "edge.pem"
    certificate.write_text((tmp_path / "crt").read_text() + (tmp_path / "key").read_text())
    edge = make_edge(tmp_path, front, certificate)
    edge.start()
    try:
        answer = httpx.get(edge.urls()["gateway"] + "/api/x", verify=False, timeout=5)
    finally:
        edge.stop()
    assert answer.json()["headers"]["x-forwarded-proto"] == "https"


def test_the_instance_finds_and_stops_it(front, tmp_path):
    edge = make_edge(tmp_path, front)
    edge.start()
    assert edge.is_running()
    assert edge.instance.stop()
    assert not edge.is_running()


def test_a_second_start_takes_the_place_of_the_first(front, tmp_path):
    edge = make_edge(tmp_path, front)
    edge.start()
    edge.start()
    try:
        assert httpx.get(edge.urls()["gateway"] + "/api/x", timeout=5).status_code == 200
    finally:
        edge.stop()
    assert not edge.is_running()
