"""The edge as a process, in front of a server that records what reached it."""

import socket
import stat
import subprocess
from http.client import HTTPResponse
from urllib.parse import quote

import httpx
import pytest

from tests.edge.conftest import ROUTES, assert_error_of, make_edge, running


@pytest.mark.parametrize(
    ("listener", "path", "reached"),
    [
        ("gateway", "/api/auth/login", "/api/auth/login"),
        ("gateway", "/api/traffic/action?x=1", "/api/traffic/action?x=1"),
        ("gateway", "/api/docs", "/api/docs"),
        ("gateway", "/api/accounts", "/api/accounts"),
        ("gateway", "/api/accounts/fetch?mobileNumber=1", "/api/accounts/fetch?mobileNumber=1"),
        ("gateway", "/api/account?mobileNumber=1", "/api/accounts/account?mobileNumber=1"),
        ("gateway", "/console", "/console"),
        ("gateway", "/console/stream?run=1", "/console/stream?run=1"),
        ("loans", "/api/loans", "/api/loans"),
        ("loans", "/api/loans/docs", "/api/loans/docs"),
        ("cards", "/api/cards/fetch", "/api/cards/fetch"),
        ("inference", "/predict_action", "/predict_action"),
        ("inference", "/v2/models/policy/infer", "/v2/models/policy/infer"),
        ("inference", "/runs/a%20b?c=%2F%61", "/runs/a%20b?c=%2F%61"),
        ("inference", "/harbour/api/traffic/action", "/harbour/api/traffic/action"),
        ("inference", "/apis", "/apis"),
        ("inference", "/-/healthz", "/-/healthz"),
        ("gateway", "/api/account/readyz", "/api/account/readyz"),
        ("density", "/readyz", "/density/readyz"),
        ("density", "/flow/readyz", "/flow/readyz"),
        ("density", "/predict", "/density/predict"),
        ("density", "/density/openapi.json", "/density/openapi.json"),
        ("density", "/forecast", "/flow/forecast"),
        ("density", "/model_info", "/flow/model_info"),
    ],
)
def test_a_path_reaches_its_service(edge, listener, path, reached):
    answer = httpx.post(edge.urls()[listener] + path, json={}, timeout=5)
    assert answer.status_code == 200
    assert answer.json()["path"] == reached


@pytest.mark.parametrize(
    ("listener", "path"),
    [
        ("gateway", "/api"),
        ("gateway", "/api/loans/fetch"),
        ("gateway", "/api/cards"),
        ("gateway", "/consoles"),
        ("loans", "/api/accounts/fetch"),
        ("cards", "/api/loans/fetch"),
        ("cards", '/x"y'),
        *(("inference", prefix + end) for prefix in ROUTES if prefix != "/" for end in ("", "/x")),
        ("inference", "/api/account"),
    ],
)
def test_a_port_leads_to_its_own_service_alone(edge, listener, path):
    answer = httpx.get(edge.urls()[listener] + path, timeout=5)
    messages = {"gateway": "Not Found", "inference": "Not Found: this port serves inference alone"}
    more = {} if listener in messages else {"instance": quote(path)}
    message = messages.get(listener, "No service at this path.")
    assert_error_of(answer, listener, 404, message, **more)


def test_a_client_does_not_choose_its_address(edge):
    spoofed = {"X-Forwarded-For": "6.6.6.6"}
    answer = httpx.get(edge.urls()["gateway"] + "/api/x", headers=spoofed, timeout=5)
    assert answer.json()["headers"]["x-forwarded-for"] == "127.0.0.1"


def test_its_user_reaches_the_inference_service_over_a_unix_socket(edge):
    assert stat.S_IMODE(edge.inference_socket.stat().st_mode) == 0o600
    spoofed = {"X-Forwarded-For": "6.6.6.6"}
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(edge.inference_socket))) as client:
        answer = client.post("http://localhost/predict_action", json={}, headers=spoofed)
    assert answer.json()["path"] == "/predict_action"
    assert not answer.json()["headers"]["x-forwarded-for"]


@pytest.mark.parametrize("listener", ["inference", "gateway", "density", "loans"])
@pytest.mark.parametrize("line", [b"OPTIONS *", b"GET *", b"CONNECT localhost:443"])
def test_a_request_without_a_path_reaches_no_server(edge, front, listener, line):
    before = len(front.reached)
    with socket.create_connection(edge.listeners()[listener], timeout=5) as client:
        client.sendall(line + b" HTTP/1.1\r\nHost: localhost:443\r\n\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 400 ")
    assert len(front.reached) == before


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
    head = b"POST /%b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"
    paths = {"inference": b"x", "gateway": b"api/x", "loans": b"api/loans", "cards": b"api/cards"}
    paths["density"] = b"x"
    connections = {}
    for name, path in paths.items():
        connections[name] = socket.create_connection(edge.listeners()[name], timeout=30)
        connections[name].sendall(head % path)
    for name, connection in connections.items():
        with connection:
            read = HTTPResponse(connection)
            read.begin()
            answer = httpx.Response(read.status, headers=read.getheaders(), content=read.read())
        in_time = None if name in ("loans", "cards") else "The request did not arrive in time"
        assert_error_of(answer, name, 408, in_time)


def test_with_a_certificate_it_speaks_https(front, tmp_path):
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    command += ["-subj", "/CN=localhost", "-keyout", str(tmp_path / "key")]
    subprocess.run([*command, "-out", str(tmp_path / "crt")], check=True, capture_output=True)
    certificate = tmp_path / "my certificate.pem"
    certificate.write_text((tmp_path / "crt").read_text() + (tmp_path / "key").read_text())
    with running(make_edge(tmp_path, front.server_port, certificate=certificate)) as edge:
        answer = httpx.get(edge.urls()["gateway"] + "/api/x", verify=False, timeout=5)
    assert answer.json()["headers"]["x-forwarded-proto"] == "https"
