"""An edge in front of a stand-in for Serve's front."""

import resource
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pytest

from load_tests.harness.free_ports import free_port, free_ports
from load_tests.harness.system import start_edge
from serve_app.processes.edge import APPLICATIONS, Edge
from serve_app.processes.instance import Instance
from serve_app.processes.ports import OF_EDGE, Ports
from tests.support.local_server import Answer, Request, Server, json_answer

ROUTES = {route: name for name, route in APPLICATIONS.items()}
PLAIN = {"content-type": "text/plain; charset=utf-8"}
# What the header X-Do selects in place of the usual answer.
ANSWERS = {
    "not parsed": Answer(400, b"Invalid HTTP request received.", PLAIN),
    "no route": Answer(404, b"Path not found. Ping ...", PLAIN),
    "replica died": Answer(500, b"Internal Server Error", PLAIN),
    "overloaded": Answer(503, b"Request dropped due to backpressure", PLAIN),
    "not found": json_answer(404, {"own": "not found"}),
    "defect": json_answer(500, {"own": "defect"}),
    "not ready": json_answer(503, {"own": "not ready"}),
}


class Front(Server):
    """Answers as Serve's front does, and records what reached it.

    Attributes:
        routes: that it knows.
        reached: method and path of each request whose head came, health checks left out.
        keys: the idempotency key of each.
    """

    def __init__(self, port: int = 0) -> None:
        self.routes = dict(ROUTES)
        self.reached: list[str] = []
        self.keys: list[str | None] = []
        self._closed = threading.Event()
        super().__init__(self._answer, port)

    def note(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        if path != "/-/routes":
            self.reached.append(f"{method} {path}")
            self.keys.append(headers.get("idempotency-key"))

    def close(self) -> None:
        self._closed.set()
        super().close()

    def _answer(self, request: Request) -> Answer | None:
        if request.path == "/-/routes":
            return json_answer(200, self.routes)
        do = request.headers.get("x-do", "")
        is_first = self.reached.count(f"{request.method} {request.path}") == 1
        if do == "drop" or (do == "drop once" and is_first):
            return None
        if do == "hang":
            self._closed.wait(20)
            return None
        if do == "slow":
            time.sleep(0.5)
        usual = {"path": request.path, "headers": dict(request.headers)}
        return ANSWERS.get(do) or json_answer(200, usual)


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
    with running(make_edge(tmp_path_factory.mktemp("edge"), front.server_port)) as edge:
        yield edge
