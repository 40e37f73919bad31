"""Measures what the shipped config takes at rest on this machine, and how fast it starts.

start      seconds from `greenwave up` to the first prediction, and until all services are ready
restart    the same after `kill -9` of all of Ray
rest       memory (PSS: a page that n processes share counts 1/n in each) and CPU time over a
           minute, of each kind of process

    make bench ARGS="rest --only start --rounds 5"
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil

from load_tests.bench.harness import Benchmark, BenchmarkError, console, rounds
from load_tests.bench.report import Column, Results
from load_tests.harness.processes import cpu_seconds, memory_bytes
from load_tests.harness.states_folder import states_folder
from load_tests.harness.system import FoundSystem
from serve_app.processes.edge import APPLICATIONS, Edge
from serve_app.processes.instance import Instance
from serve_app.processes.ports import Ports
from serve_app.processes.process_tags import Role, read_command

REST_S, SETTLE_S = 60.0, 30.0
READY_TIMEOUT_S = 180.0
BODY = {"junction_id": "300839359", "obs_data": [1, 0, 1, 0.4, 0.2, 0, 0, 0.1]}
ROLES = {
    "ray::ServeReplica:": "replicas",
    "ray::StateActor": "state actor",
    "ray::ConsoleFeed": "console's feed",
    "ray::ServeController": "Serve's controller",
    "ray::ProxyActor": "Ray's Python proxy",
    "ray::HAProxyManager": "manager of Serve's HAProxy",
    "ray::DashboardAgent": "Ray's agents",
    "ray::RuntimeEnvAgent": "Ray's agents",
    "fork_server.py": "fork server",
    "edge.cfg": "edge",
    "haproxy": "Serve's HAProxy",
    "supervision.": "supervisor and guard",
    "gcs_server": "GCS",
    "raylet": "raylet",
    "os.wait()": "Ray's first process",
}
"""By a text of the command; others are of Ray's dashboard."""


def _measure(options: argparse.Namespace, results: Results) -> None:
    for number in rounds(options):
        with _running(options, results) as system:
            if "restart" in options.only:
                for process in system.instance.processes(Role.RAY):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.kill()
                _wait(system, "restart", results)
            if "rest" in options.only and number == options.rounds:
                time.sleep(SETTLE_S)
                _rest(system.instance.processes(), results)


@contextlib.contextmanager
def _running(options: argparse.Namespace, results: Results) -> Iterator[FoundSystem]:
    """Run `greenwave up` on an empty data folder, and stop it."""
    base = options.port_base
    with tempfile.TemporaryDirectory(prefix="gwr-", dir="/tmp") as folder, states_folder():
        instance = Instance(Path(folder) / f"ports-{base}", Ports.from_base(base))
        system = FoundSystem(instance, Edge(instance))
        command = [sys.executable, "-m", "greenwave", "up", "--port-base", str(base)]
        env = os.environ | {"DATA_DIR": folder}
        up = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
        try:
            _wait(system, "start", results)
            if up.wait(READY_TIMEOUT_S):
                raise BenchmarkError("greenwave up failed")
            yield system
        finally:
            up.terminate()
            up.wait()
            instance.stop()
            instance.remove_runtime_files()


def _wait(system: FoundSystem, subject: str, results: Results) -> None:
    """Add the seconds from now until a prediction, and until all services are ready."""
    started, figures = time.monotonic(), {}
    waiting = [route.rstrip("/") for route in APPLICATIONS.values()]
    with httpx.Client(timeout=2.0) as client:
        while waiting or "first_s" not in figures:
            seconds = time.monotonic() - started
            if seconds > READY_TIMEOUT_S:
                raise BenchmarkError(f"Not ready: {', '.join(waiting) or 'a prediction'}.")
            with contextlib.suppress(httpx.HTTPError):
                if "first_s" not in figures:
                    url = system.url_of("/") + "predict_action"
                    if client.post(url, json=BODY).is_success:
                        figures["first_s"] = seconds
                for route in waiting[:]:
                    if client.get(f"{system.url_of(route or '/').rstrip('/')}/readyz").is_success:
                        waiting.remove(route)
            time.sleep(0.05)
    figures["all_s"] = time.monotonic() - started
    results.add(subject, figures)
    console.print(f"  {subject}: {figures['first_s']:.1f} s, all {figures['all_s']:.1f} s")


def _rest(processes: list[psutil.Process], results: Results) -> None:
    kinds: dict[str, list[psutil.Process]] = {}
    for process in processes:
        command = " ".join(read_command(process))
        role = next((each for text, each in ROLES.items() if text in command), "Ray's dashboard")
        kinds.setdefault(role, []).append(process)
    before = Counter({role: cpu_seconds(each) for role, each in kinds.items()})
    started = time.monotonic()
    time.sleep(REST_S)
    took_s = time.monotonic() - started
    total: Counter[str] = Counter()
    for role, each in kinds.items():
        spent = (cpu_seconds(each) - before[role]) / took_s
        row = {"processes": len(each), "mb": memory_bytes(each) / 1e6, "cpu": 100 * spent}
        results.add(role, row)
        total.update(row)
    results.add("total", total)


BENCHMARK = Benchmark(
    parts=["start", "restart", "rest"],
    measure=_measure,
    tables=[
        [
            Column("first prediction, s", "first_s", digits=1),
            Column("all services ready, s", "all_s", digits=1),
        ],
        [
            Column("processes", "processes"),
            Column("PSS, MB", "mb"),
            Column("CPU, % of a core", "cpu", digits=1),
        ],
    ],
    rounds=3,
)
