"""A system with all of its services, its edge, and what `make dashboards` starts beside it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from load_tests.chaos.requests import (
    Record,
    decisions,
    density_forecasts,
    flow_forecasts,
    new_records,
    predictions,
)
from load_tests.harness.shipped import shipped_application
from load_tests.harness.system import System, application, free_port_base
from serve_app.cli.dashboards import FROM_BASE
from serve_app.processes.edge import Edge, EdgePorts
from serve_app.processes.instance import Instance
from serve_app.processes.ports import Ports
from tests.cluster.gateway.conftest import USER, gateway, wait_for

EVERY_S = 1.0
TOLD_S = 4.0
RECORDS = ("accounts", "loans", "cards")


@dataclass
class Watched:
    """A running system, and the Prometheus beside it.

    Attributes:
        command: the `greenwave dashboards` that runs.
        log: what it prints.
    """

    system: System
    edge: Edge
    prometheus: str
    command: subprocess.Popen[bytes]
    log: Path

    def ask(self, expression: str) -> list[dict[str, Any]]:
        """Return what Prometheus answers now."""
        answer = httpx.get(
            f"{self.prometheus}/api/v1/query", params={"query": expression}, timeout=10
        ).json()
        assert answer["status"] == "success", answer
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    @cached_property
    def token(self) -> str:
        """Log in once, with what is refused before: the gateway counts attempts."""
        gateway = self.edge.urls()["gateway"]
        with httpx.Client(base_url=gateway, timeout=10) as client:
            assert client.post("/api/traffic/action", json={}).status_code == 401
            wrong = USER | {"password": "wrong"}
            assert client.post("/api/auth/login", json=wrong).status_code == 401
            answer = client.post("/api/auth/login", json=USER).raise_for_status()
        token: str = answer.json()["accessToken"]
        return token

    def load(self, rounds: int) -> None:
        """Ask each service for everything."""
        urls, front, record = self.edge.urls(), self.system.url, Record()
        sources = [
            *((urls["inference"], predictions(f"run-{n}", record)) for n in range(4)),
            (urls["gateway"], decisions("town", self.token)),
            (front + "/density", density_forecasts()),
            (front + "/flow", flow_forecasts()),
            *((front, new_records(kind, next(_NUMBERS), record)) for kind in ("loans", "cards")),
        ]
        with httpx.Client(timeout=10) as client:
            for _ in range(rounds):
                for url, requests in sources:
                    each = next(requests)
                    answer = client.request(
                        each.method, url + each.path, json=each.body, headers=each.headers
                    )
                    assert answer.status_code == each.status, answer.text
            for _, path in record.created:
                client.get(f"{front}{path}").raise_for_status()
            client.get(front + "/api/accounts", params={"mobileNumber": "1234567890"})
            client.get(front + "/health").raise_for_status()


_NUMBERS = count(4_354_000_000, 10_000)


@pytest.fixture(scope="package")
def watched() -> Iterator[Watched]:
    base = free_port_base()
    folder = Path(tempfile.mkdtemp(prefix="gww-", dir="/tmp"))
    # Ray tells more often, and forgets a gauge that is not told again for twice as long.
    env = {
        "RAY_metrics_report_interval_ms": f"{1000 * TOLD_S:.0f}",
        "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "2",
    }
    instance = Instance(folder / f"ports-{base}", Ports.from_base(base), env=env)
    system, edge = System(instance), Edge(instance, EdgePorts.from_base(base))
    try:
        instance.start()
        others = [shipped_application(name) for name in ("density", "flow", *RECORDS)]
        inference = application("inference", "/", replicas=2, diagnose_detectors=True)
        system.deploy(inference, gateway("gateway", "/api"), *others)
        edge.start()
        command = _dashboards(folder, base)
        try:
            url = f"http://127.0.0.1:{base + FROM_BASE}"
            watched = Watched(system, edge, url, command, folder / "log")
            wait_for(lambda: "Ctrl-C" in watched.log.read_text())
            yield watched
        finally:
            command.send_signal(signal.SIGINT)
            command.wait(30)
    finally:
        instance.stop()
        shutil.rmtree(folder, ignore_errors=True)
        instance.remove_runtime_files()


def _dashboards(folder: Path, base: int) -> subprocess.Popen[bytes]:
    words = ["-m", "serve_app.cli.main", "dashboards", "--every", f"{EVERY_S:g}"]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, *words, "--port-base", str(base)],
            env=os.environ | {"DATA_DIR": str(folder)},
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=_heed_ctrl_c,
        )


def _heed_ctrl_c() -> None:
    """Take Ctrl-C also where the tests run in the background, which ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
