"""A system with all of its services, its edge, and a Prometheus that asks it."""

import asyncio
import contextlib
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count, islice
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from load_tests.chaos.clients import ANSWERED, Client
from load_tests.chaos.requests import (
    Record,
    Request,
    decisions,
    density_forecasts,
    flow_forecasts,
    new_records,
    predictions,
)
from load_tests.harness.free_ports import free_port
from load_tests.harness.shipped import ROOT, shipped_application
from load_tests.harness.system import QUICK, System, application, running_system
from serve_app.processes.edge import Edge
from serve_app.processes.ports import Ports
from tests.cluster.gateway.conftest import USER, gateway
from tests.support.waiting import until

CONFIGS = ROOT / "configs"
EVERY, EVERY_S = "1s", 1.0
TOLD_S = 4.0
RECORDS = ("accounts", "loans", "cards")


@dataclass
class Watched:
    """A running system, and the Prometheus beside it."""

    system: System
    edge: Edge
    prometheus: str

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
        urls, front, record = self.edge.urls(), self.system.instance.front_url, Record()
        sources = [
            *((urls["inference"], predictions(f"run-{n}")) for n in range(4)),
            (urls["gateway"], decisions("town")),
            (front + "/density", density_forecasts()),
            (front + "/flow", flow_forecasts()),
            *((front, new_records(kind, next(_NUMBERS), record)) for kind in ("loans", "cards")),
        ]
        for url, requests in sources:
            asyncio.run(self._ask(url, islice(requests, rounds), record))
        with httpx.Client(timeout=10) as client:
            for _, path in record.created:
                client.get(f"{front}{path}").raise_for_status()
            client.get(front + "/api/accounts", params={"mobileNumber": "1234567890"})
            client.get(front + "/health").raise_for_status()

    async def _ask(self, url: str, requests: Iterable[Request], record: Record) -> None:
        token = self.token if url == self.edge.urls()["gateway"] else ""
        async with Client(url, record.history, token=token) as client:
            assert {await each(client) for each in requests} == {ANSWERED}


_NUMBERS = count(4_354_000_000, 10_000)


@pytest.fixture(scope="package")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    # Ray tells more often, and forgets a gauge that is not told again for twice as long.
    env = {"RAY_metrics_report_interval_ms": f"{1000 * TOLD_S:.0f}", **QUICK}
    inference = application("inference", "/", replicas=2, diagnose_detectors=True)
    others = [shipped_application(name) for name in ("density", "flow", *RECORDS)]
    applications = (inference, gateway("gateway", "/api"), *others)
    with (
        running_system(*applications, edge=True, env=env) as system,
        prometheus(tmp_path_factory.mktemp("prometheus"), system.instance.ports) as url,
    ):
        assert system.edge
        yield Watched(system, system.edge, url)


@contextlib.contextmanager
def prometheus(folder: Path, ports: Ports) -> Iterator[str]:
    """Run Prometheus with the shipped configuration, but these ports, and yield its URL."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("no prometheus on PATH; Debian: apt install prometheus")
    config = yaml.safe_load((CONFIGS / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": EVERY, "evaluation_interval": EVERY}
    config["rule_files"] = [str(CONFIGS / pattern) for pattern in config["rule_files"]]
    places = {"ray": ports.metrics, "haproxy": ports.haproxy_metrics, "edge": ports.edge_metrics}
    for job in config["scrape_configs"]:
        job["static_configs"] = [{"targets": [f"127.0.0.1:{places[job['job_name']]}"]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    command = [program, f"--config.file={folder / 'prometheus.yml'}"]
    command += [f"--storage.tsdb.path={folder / 'series'}", f"--web.listen-address={address}"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        ready = f"http://{address}/-/ready"
        until(lambda: _answers(ready))
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(30)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2).is_success
    except httpx.HTTPError:
        return False
