"""The shipped configs' way to a replica: Serve's front on a real HAProxy, with Ray's template."""

import collections
import contextlib
import http.client
import os
import subprocess
import time
import timeit
from collections.abc import Iterator
from pathlib import Path

import pytest

from load_tests.harness.free_ports import free_ports
from serve_app.processes.haproxy import binary, front_environment
from serve_app.processes.ports import is_free
from tests.unit.serve_app.processes.rendered_front import BALANCE, backend, rendered, variables_of

SIZES = (2, 3, 4)
APPLICATIONS = {"i": "inference", "n": "inference-north", "d": "density"}
NAMES = "abcde"  # of the replicas, which answer with them
RUNS = [f"simulation-{number}" for number in range(600)]


def lists_of(size: int) -> Iterator[str]:
    """Yield Serve's lists of replicas: all of them, without one of them, and with one more."""
    names = NAMES[:size]
    yield names
    yield from (names.replace(each, "") for each in names)
    yield from (names + NAMES[size], NAMES[size] + names)


LISTS = {each for size in SIZES for each in lists_of(size)}


def stand_ins(ports: dict[str, int], folder: Path) -> Path:
    """Write the configuration of an HAProxy that answers for the replicas."""
    lines = ["defaults", "mode http", "timeout client 5s"]
    for name, port in ports.items():
        lines += [f"frontend {name}", f"bind 127.0.0.1:{port}"]
        lines += [f"http-request return status 200 content-type text/plain string {name}"]
    path = folder / "replicas.cfg"
    path.write_text("\n".join(lines) + "\n")
    return path


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
    port, metrics, stats, *others = free_ports(3 + len(NAMES))
    ports = dict(zip(NAMES, others, strict=True))
    backends = [
        backend(application, f"/{names}/{path}", names, [ports[each] for each in names])
        for path, application in APPLICATIONS.items()
        for names in LISTS
    ]
    config = rendered(folder, port, backends, metrics_port=metrics, stats_port=stats)
    started = front_environment()
    commands = [
        [binary(), "-db", "-f", str(stand_ins(ports, folder))],
        [started["RAY_SERVE_HAPROXY_BINARY_PATH"], "-db", "-f", str(config)],
    ]
    with contextlib.ExitStack() as stack:
        for command, awaited in zip(commands, (others[0], port), strict=True):
            process = subprocess.Popen(command, env=os.environ | started)
            stack.callback(process.wait, 10)
            stack.callback(process.terminate)
            deadline = time.monotonic() + 10
            while is_free(awaited):
                assert time.monotonic() < deadline
                time.sleep(0.01)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        yield Front(stack.enter_context(contextlib.closing(connection)))


def test_every_shipped_config_for_several_replicas_routes_alike():
    assert (
        variables_of("serve_config.yaml")[BALANCE] == variables_of("configs/cluster.yaml")[BALANCE]
    )


@pytest.mark.parametrize("place", ["/abc/i", "/abc/n"])
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
    assert len({front.ask("/abc/i", User_Agent=agent) for agent in agents for _ in range(4)}) == 1


def test_runs_are_spread_over_the_replicas(front):
    for names in (NAMES[:size] for size in SIZES):
        shares = collections.Counter(front.ask_for(RUNS, f"/{names}/i"))
        assert set(shares) == set(names)
        assert max(shares.values()) < 1.2 * len(RUNS) / len(names)


@pytest.mark.parametrize("size", SIZES)
def test_a_replica_that_joins_or_leaves_moves_only_its_share_of_the_runs(front, size):
    all_of_them, *changed = lists_of(size)
    before = front.ask_for(RUNS, f"/{all_of_them}/i")
    for names in changed:
        after = front.ask_for(RUNS, f"/{names}/i")
        moved = [{old, new} for old, new in zip(before, after, strict=True) if old != new]
        (one,) = set(names) ^ set(all_of_them)
        assert all(one in each for each in moved), names
        assert len(moved) < 1.35 * len(RUNS) / max(len(names), size), names


@pytest.mark.parametrize("headers", [{}, {"X_Simulation_Run": "one"}], ids=["alone", "of a run"])
def test_requests_for_the_other_services_take_turns(front, headers):
    shares = collections.Counter(front.ask("/abc/d", **headers) for _ in range(60))
    assert min(shares.values()) >= 10


@pytest.mark.parametrize("name", ["X_Simulation_Run", "X_Other"])
@pytest.mark.parametrize("value", ["a" * 14000, "x-simulation-run: " * 700, "\tinference" * 1200])
@pytest.mark.parametrize("place", ["/abc/i", "/abc/d"])
def test_headers_made_to_be_slow_to_search_are_not(front, place, name, value):
    """A pattern that may go back over what it has read takes several milliseconds for some."""
    fastest = min(timeit.repeat(lambda: front.ask(place, **{name: value}), number=1, repeat=50))
    assert fastest < 0.003
