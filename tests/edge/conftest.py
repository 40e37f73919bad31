"""An edge in front of a stand-in for Serve's front."""

import contextlib
import json
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from load_tests.harness.free_ports import free_port, free_ports
from load_tests.harness.system import start_edge
from serve_app.processes.edge import Edge
from serve_app.processes.instance import Instance
from serve_app.processes.ports import OF_EDGE, Ports

ROUTES = {
    "/": "inference",
    "/api": "gateway",
    "/api/accounts": "accounts",
    "/api/loans": "loans",
    "/api/cards": "cards",
    "/density": "density",
    "/flow": "flow",
    "/console": "console",
}


class Front(ThreadingHTTPServer):
    """Answers as Serve's front does, and records what reached it.

    Attributes:
        routes: that it knows.
        reached: method and path of each request whose head came, health checks left out.
        keys: the idempotency key of each.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 1024

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Answer)
        self.routes = dict(ROUTES)
        self.reached: list[str] = []
        self.keys: list[str | None] = []
        self._connections: set[socket.socket] = set()
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def get_request(self) -> tuple[socket.socket, object]:
        connection, address = super().get_request()
        self._connections.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def close(self) -> None:
        """Go as a killed process does, with every connection."""
        self.shutdown()
        self.server_close()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep quiet: HAProxy ends its health checks with a reset."""


class Answer(BaseHTTPRequestHandler):
    """The header X-Do selects another answer than the usual one."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer leaves whole or not at all
    server: Front

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        if self.path == "/-/routes":
            self._send(200, json.dumps(self.server.routes))
            return
        request = f"{self.command} {self.path}"
        self.server.reached.append(request)
        self.server.keys.append(headers.get("idempotency-key"))
        self._read_body(headers)
        match headers.get("x-do"):
            case "drop":
                self.close_connection = True
            case "drop once" if self.server.reached.count(request) == 1:
                self.close_connection = True
            case "slow":
                time.sleep(0.5)
                self._send(200, "{}")
            case "hang":
                self.connection.settimeout(20)
                self.connection.recv(1)  # until the client disconnects
                self.close_connection = True
            case "not parsed":
                self._send(400, "Invalid HTTP request received.", "text/plain; charset=utf-8")
            case "no route":
                self._send(404, f"Path '{self.path}' not found. Ping ...", "text/plain")
            case "replica died":
                self._send(500, "Internal Server Error", "text/plain; charset=utf-8")
            case "overloaded":
                self._send(503, "Request dropped due to backpressure", "text/plain")
            case "not found" | "defect" | "not ready" as own:
                status = {"not found": 404, "defect": 500, "not ready": 503}[own]
                self._send(status, json.dumps({"own": own}))
            case _:
                self._send(200, json.dumps({"path": self.path, "headers": headers}))

    do_POST = do_DELETE = do_PUT = do_GET

    def _read_body(self, headers: dict[str, str]) -> None:
        """Read it to its end: a server that answers earlier, and closes, counts as failing."""
        self.rfile.read(int(headers.get("content-length", 0)))
        if headers.get("transfer-encoding") == "chunked":
            while length := int(self.rfile.readline() or b"0", 16):
                self.rfile.read(length + len(b"\r\n"))
            self.rfile.readline()

    def _send(self, status: int, content: str, content_type: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content.encode())

    def log_message(self, format: str, *args: object) -> None: ...


def assert_error_of(
    answer: httpx.Response, listener: str, status: int, message: str | None, **more: str | None
) -> None:
    """Assert that an error of the edge has the form of the service.

    Args:
        message: None where problem details have only the title.
        more: further members of ``{"detail": …}`` or of problem details.
    """
    assert answer.status_code == status
    body = answer.json()
    match listener:
        case "inference" | "density":
            assert body == {"detail": message} | more
        case "gateway":
            assert abs(body.pop("timestamp") - time.time() * 1000) < 2000
            assert body == {"status": "error", "message": message}
        case _:
            assert answer.headers["content-type"] == "application/problem+json"
            problem = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status}
            assert body == problem | ({"detail": message} if message else {}) | more


def make_edge(
    folder: Path, front: int, fallback: int | None = None, certificate: Path | None = None
) -> Edge:
    edge: dict[str, Any] = dict(zip(("http", "edge_metrics", *OF_EDGE), free_ports(6), strict=True))
    ports = Ports(front=front, fallback_http=fallback or free_port())
    return Edge(Instance(folder, replace(ports, **edge)), certificate=certificate)


@contextmanager
def running(edge: Edge) -> Iterator[Edge]:
    start_edge(edge)
    try:
        yield edge
    finally:
        edge.stop()


@pytest.fixture
def many_sockets():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="package")
def front():
    front = Front()
    yield front
    front.close()


@pytest.fixture(scope="package")
def edge(front, tmp_path_factory):
    with running(make_edge(tmp_path_factory.mktemp("edge"), front.port)) as edge:
        yield edge
