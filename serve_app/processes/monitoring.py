"""Prometheus and Grafana beside a running system."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import yaml

from serve_app.errors import CommandError
from serve_app.processes.instance import Instance
from serve_app.processes.ports import holder, is_free

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class MonitoringTool:
    """A program that monitors an instance.

    Attributes:
        ready: path that answers 200 once the program serves.
        env: added to the environment of its parent.
    """

    name: str
    command: Sequence[str]
    port: int
    ready: str
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def serves(self) -> bool:
        try:
            return httpx.get(self.url + self.ready, timeout=2).is_success
        except httpx.HTTPError:
            return False


def prometheus(
    instance: Instance, port: int, every_s: float, *, with_edge: bool = True
) -> MonitoringTool | None:
    """Return Prometheus with our rules and the ports of an instance; None if it is not installed.

    Args:
        every_s: between two scrapes.
    """
    program = shutil.which("prometheus")
    if program is None:
        return None
    folder = instance.data_dir / "prometheus"
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "prometheus.yml"
    config.write_text(prometheus_config(instance, every_s, with_edge=with_edge))
    command = [
        program,
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--storage.tsdb.retention.time=15d",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    return MonitoringTool("Prometheus", command, port, "/-/ready", folder / "prometheus.log")


def prometheus_config(instance: Instance, every_s: float, *, with_edge: bool) -> str:
    """Return configs/prometheus.yml with the ports of an instance, with or without its edge."""
    config = yaml.safe_load((CONFIGS / "prometheus.yml").read_text(encoding="utf-8"))
    ports = instance.ports
    places = {"ray": ports.metrics, "haproxy": ports.haproxy_metrics, "edge": ports.edge_metrics}
    jobs = [job for job in config["scrape_configs"] if with_edge or job["job_name"] != "edge"]
    for job in jobs:
        job["static_configs"] = [{"targets": [f"127.0.0.1:{places[job['job_name']]}"]}]
    every = f"{every_s * 1000:.0f}ms"
    return yaml.safe_dump(
        config
        | {
            "global": {"scrape_interval": every, "scrape_timeout": every}
            | {"evaluation_interval": every},
            "rule_files": [str(CONFIGS / pattern) for pattern in config["rule_files"]],
            "scrape_configs": jobs,
        }
    )


def grafana(instance: Instance, port: int, prometheus_url: str) -> MonitoringTool | None:
    """Return Grafana with our dashboards, readable without login; None if it is not installed."""
    program = shutil.which("grafana")
    if program is None:
        return None
    folder = instance.data_dir / "grafana"
    folder.mkdir(parents=True, exist_ok=True)
    home = Path("/usr/share/grafana")  # of the Debian package; an unpacked archive has its own
    if not home.exists():
        home = Path(program).resolve().parents[1]
    env = {
        "GF_PATHS_DATA": str(folder / "data"),
        "GF_PATHS_LOGS": str(folder / "logs"),
        "GF_PATHS_PROVISIONING": str(CONFIGS / "grafana" / "provisioning"),
        "GF_SERVER_HTTP_ADDR": "127.0.0.1",
        "GF_SERVER_HTTP_PORT": str(port),
        "GF_AUTH_ANONYMOUS_ENABLED": "true",
        "GF_ANALYTICS_REPORTING_ENABLED": "false",
        "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
        "GREENWAVE_PROMETHEUS": prometheus_url,
        "GREENWAVE_DASHBOARDS": str(CONFIGS / "grafana" / "dashboards"),
    }
    command = [program, "server", f"--homepath={home}"]
    return MonitoringTool("Grafana", command, port, "/api/health", folder / "grafana.log", env)


@contextmanager
def running_tools(tools: Sequence[MonitoringTool]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run programs during the block; yield their processes once all of them serve.

    Raises:
        CommandError: a port is taken, or a program does not start; the others are stopped.
    """
    with ExitStack() as stack:
        yield [stack.enter_context(_running(each)) for each in tools]


@contextmanager
def _running(tool: MonitoringTool) -> Iterator[subprocess.Popen[bytes]]:
    if not is_free(tool.port):
        raise CommandError(f"Port {tool.port} ({tool.name}) is taken{holder(tool.port)}.")
    with tool.log.open("wb") as log:
        process = subprocess.Popen(
            tool.command,
            env=os.environ | tool.env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches only us, and we stop it gracefully
        )
    try:
        _wait_until_serving(tool, process)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_serving(tool: MonitoringTool, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not tool.serves():
        if process.poll() is not None or time.monotonic() > deadline:
            raise CommandError(f"{tool.name} does not start; see {tool.log}.")
        time.sleep(0.1)
