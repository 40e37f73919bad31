"""What Serve's front gets beyond Serve's configuration: loopback, affinity, kept connections."""

import subprocess
from pathlib import Path

import pytest

from deployments.ray_private.haproxy_front import GLOBAL, complete, missing, server_id
from serve_app.processes import haproxy
from tests.unit.serve_app.processes.rendered_front import (
    METRICS_PORT,
    STATS_PORT,
    backend,
    rendered,
)

PORTS = {
    "RAY_SERVE_HAPROXY_METRICS_PORT": str(METRICS_PORT),
    "RAY_SERVE_HAPROXY_STATS_PORT": str(STATS_PORT),
}
NAMES = ("a1", "b2", "c3")


@pytest.fixture
def config(tmp_path) -> Path:
    inference = backend("inference", "/", NAMES, range(30000, 30003))
    density = backend("density", "/density", NAMES[:2], range(30010, 30012))
    return rendered(tmp_path, 8100, [inference, density])


def started(path: Path) -> str:
    """Return a configuration as HAProxy reads it."""
    program = path.with_name("haproxy")
    program.write_text('#!/bin/sh\necho "$@"; cat "$3"\n')
    program.chmod(0o700)
    environment = haproxy.front_environment() | PORTS | {"GREENWAVE_HAPROXY": str(program)}
    script = environment["RAY_SERVE_HAPROXY_BINARY_PATH"]
    command = [script, "-db", "-f", str(path), "-sf", "1234"]
    run = subprocess.run(
        command, env=environment | {"PATH": "/bin"}, capture_output=True, text=True, check=True
    )
    first, _, config = run.stdout.partition("\n")
    assert first == " ".join(command[1:])
    return config


def lines_of(config: str, word: str) -> list[str]:
    return [line.strip() for line in config.splitlines() if line.strip().startswith(word)]


def test_metrics_and_statistics_listen_on_the_loopback_and_nothing_else_changes(config):
    for _ in range(2):  # a complete configuration stays as it is
        binds = lines_of(started(config), "bind")
        assert binds == [f"bind 127.0.0.1:{port}" for port in (METRICS_PORT, 8100, STATS_PORT)]
    others = "frontend h\n    bind *:8000\n    bind :91010\n    bind 10.0.0.1:9101\n"
    assert complete(others, PORTS) == others


def test_without_ports_in_the_environment_they_stay_open_as_on_a_node_of_a_cluster(config):
    text = config.read_text()
    assert lines_of(complete(text, {}), "bind") == lines_of(text, "bind")


def test_the_configuration_lacks_nothing_then_and_haproxy_takes_it(config):
    assert len([*missing(config.read_text())]) == 2
    assert [*missing(started(config))] == []
    subprocess.run([haproxy.binary(), "-c", "-f", config], check=True)
    assert {*GLOBAL} <= {*lines_of(config.read_text(), "tune")}
    assert "log 127.0.0.1:514 local0 notice" in lines_of(config.read_text(), "log")


def test_an_operators_own_target_of_the_log_keeps_its_level(tmp_path):
    text = rendered(tmp_path, 8100, [], log_target="10.0.0.9:514").read_text()
    assert "log 10.0.0.9:514 local0 info" in lines_of(complete(text, {}), "log")


def test_the_words_of_earlier_configs_are_not_doubled(tmp_path):
    log = "127.0.0.1:514 local0 notice\n      " + "\n      ".join(GLOBAL) + "\n      #"
    balance = 'hash "req.hdr(x-simulation-run)"\n    hash-type consistent djb2 avalanche'
    path = rendered(tmp_path, 8100, [], log_target=log, balance_algorithm=balance)
    assert started(path) == path.read_text()
    assert path.read_text().count("hash-type") == 1


def test_another_algorithm_is_reported_with_what_to_set(tmp_path):
    inference = backend("inference", "/", NAMES, range(30000, 30003))
    text = rendered(tmp_path, 8100, [inference], balance_algorithm="leastconn").read_text()
    first, *_ = missing(complete(text, {}))
    assert "RAY_SERVE_HAPROXY_BALANCE_ALGORITHM" in first


def test_two_servers_whose_ids_would_be_equal_get_two(tmp_path):
    by_id: dict[int, str] = {}
    for number in range(100_000):
        name = f"SERVE_REPLICA_inference-Some-{number}"
        if (one := by_id.setdefault(server_id(name), name)) != name:
            break
    names = [each.rpartition("-")[2] for each in (one, name)]
    path = rendered(tmp_path, 8100, [backend("inference", "/", names, (30000, 30001))])
    assert [*missing(started(path))] == []
    subprocess.run([haproxy.binary(), "-c", "-f", path], check=True)


def test_a_configuration_that_cannot_be_read_is_left_to_haproxy(tmp_path):
    path = tmp_path / "haproxy.cfg"
    path.write_bytes(b"global\n# \xff\n")
    environment = haproxy.front_environment() | {"GREENWAVE_HAPROXY": "/bin/true"}
    run = subprocess.run(
        [environment["RAY_SERVE_HAPROXY_BINARY_PATH"], "-f", path], env=environment, text=True,
        capture_output=True, check=True,
    )  # fmt: skip
    assert run.stderr.startswith(f"Cannot complete {path}: ")
