"""The shipped configs' way to a replica, on a real HAProxy with replicas that name themselves."""

from __future__ import annotations

import collections
import contextlib
import http.client
import subprocess
import time
import timeit
from pathlib import Path

import pytest
import yaml

from load_tests.harness.free_ports import free_port
from load_tests.harness.shipped import ROOT
from serve_app.processes.haproxy import binary
from serve_app.processes.ports import is_free

SIZES = (2, 3, 4)
APPLICATIONS = {"i": "inference", "n": "inference-north", "d": "density"}


def words_of(config: str) -> tuple[str, str]:
    """Return what the config puts into HAProxy's: in ``log``, and in ``balance``."""
    text = (ROOT / config).read_text(encoding="utf-8")
    env = yaml.safe_load(text)["controller_options"]["runtime_env"]["env_vars"]
    names = ("RAY_SERVE_HAPROXY_LOG_TARGET", "RAY_SERVE_HAPROXY_BALANCE_ALGORITHM")
    return str(env[names[0]]), str(env[names[1]])


def configuration(log: str, balance: str, port: int, folder: Path) -> str:
    """Return what Serve writes in essence: a variable for the application, and backends."""
    lines = ["global", f"    log {log} local0 info", "    maxconn 2000"]
    lines += ["defaults", "mode http", "timeout client 5s", "timeout server 5s"]
    lines += ["timeout connect 1s", f"balance {balance}", "frontend front"]
    lines += [f"bind 127.0.0.1:{port}"]
    for path, name in APPLICATIONS.items():
        lines += [f"http-request set-var-fmt(txn.serve_app) {name} if {{ path_end /{path} }}"]
    lines += [f"use_backend of-{size} if {{ path_beg /{size}/ }}" for size in SIZES]
    for size in SIZES:
        lines += [f"backend of-{size}"]
        lines += [f"server replica-{n} unix@{folder}/{n}" for n in range(size)]
    for n in range(max(SIZES)):
        lines += [f"frontend replica-{n}", f"bind unix@{folder}/{n}"]
        lines += [f"http-request return status 200 content-type text/plain string {n}"]
    return "\n".join(lines) + "\n"


class Front:
    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection

    def ask(self, place: str, **headers: str) -> str:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request("GET", place, headers=named)
        return self._connection.getresponse().read().decode()

    def ask_for(self, runs: list[str], place: str) -> list[str]:
        return [self.ask(place, X_Simulation_Run=run) for run in runs]


@pytest.fixture(scope="module")
def front(tmp_path_factory):
    folder = tmp_path_factory.mktemp("haproxy")
    port = free_port()
    file = folder / "haproxy.cfg"
    file.write_text(configuration(*words_of("serve_config.yaml"), port, folder))
    haproxy = subprocess.Popen([binary(), "-db", "-f", str(file)])
    try:
        deadline = time.monotonic() + 10
        while is_free(port):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as asked:
            yield Front(asked)
    finally:
        haproxy.terminate()
        haproxy.wait(10)


def test_requests_are_not_logged_to_syslog_but_what_becomes_of_servers_is():
    log, _ = words_of("serve_config.yaml")
    first, *others, last = (line.split() for line in log.splitlines())
    assert first == ["127.0.0.1:514", "local0", "notice"]  # a request's line is of level info
    assert dict(others) == {"tune.pool-low-fd-ratio": "80", "tune.pool-high-fd-ratio": "90"}
    assert last == ["#"]  # before the words that Serve adds


RUNS = [f"simulation-{number}" for number in range(400)]


def test_every_shipped_config_for_several_replicas_routes_alike():
    assert words_of("serve_config.yaml") == words_of("configs/cluster.yaml")


@pytest.mark.parametrize("place", ["/3/i", "/3/n"])
def test_a_run_stays_with_its_replica_whatever_else_a_request_says(front, place):
    for run in RUNS[:20]:
        others = [
            front.ask(place, X_Simulation_Run=run, User_Agent=f"|run={n}", Cookie="\t" * n)
            for n in range(5)
        ]
        others.append(front.ask(place, **{"x-simulation-run": run, "zz": "inference"}))
        others.append(front.ask(place, **{"AA": "1", "X-SIMULATION-RUN": run}))
        assert len(set(others)) == 1


def test_the_default_run_stays_with_one_replica(front):
    agents = ["", "a|b", "run=7", "inference", "x-simulation-run: a"]
    assert len({front.ask("/3/i", User_Agent=agent) for agent in agents for _ in range(4)}) == 1


def test_runs_are_spread_over_the_replicas(front):
    for size in SIZES:
        shares = collections.Counter(front.ask_for(RUNS, f"/{size}/i"))
        assert len(shares) == size
        assert max(shares.values()) < 1.35 * len(RUNS) / size


def test_one_replica_more_moves_only_its_share_of_the_runs(front):
    before, after = (front.ask_for(RUNS, f"/{size}/i") for size in (3, 4))
    moved = [new for old, new in zip(before, after, strict=True) if old != new]
    assert set(moved) == {"3"}
    assert len(moved) < 1.35 * len(RUNS) / 4


@pytest.mark.parametrize("headers", [{}, {"X_Simulation_Run": "one"}], ids=["alone", "of a run"])
def test_requests_for_the_other_services_take_turns(front, headers):
    shares = collections.Counter(front.ask("/3/d", **headers) for _ in range(60))
    assert min(shares.values()) >= 10


@pytest.mark.parametrize("name", ["X_Simulation_Run", "X_Other"])
@pytest.mark.parametrize("value", ["a" * 14000, "x-simulation-run: " * 700, "\tinference" * 1200])
@pytest.mark.parametrize("place", ["/3/i", "/3/d"])
def test_headers_made_to_be_slow_to_search_are_not(front, place, name, value):
    """A pattern that may go back over what it has read takes several milliseconds for some."""
    fastest = min(timeit.repeat(lambda: front.ask(place, **{name: value}), number=1, repeat=7))
    assert fastest < 0.003
