"""A Ray cluster with its own ports and folders, and the applications deployed on it."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from load_tests.harness.free_ports import WORKER
from load_tests.harness.processes import titled
from load_tests.harness.shipped import ROOT, Config, shipped_application, shipped_config
from load_tests.harness.states_folder import states_folder
from load_tests.harness.waiting import wait_until
from serve_app.processes.edge import APPLICATIONS, Edge
from serve_app.processes.edge_backends import cities_of
from serve_app.processes.instance import Instance
from serve_app.processes.ports import Ports, listeners
from serve_app.processes.supervision.managed_edge import ManagedEdge
from serve_app.processes.supervision.managed_process import logger
from serve_app.ray_dashboard import RayDashboard
from serve_app.rollout.deploy import deploy, wait_until_running

EDGE_TIMEOUT_S = 10.0
FRONT_S = 10.0
QUICK = {"RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "2"}
"""Replicas drain for two seconds, not thirty."""
_BASES = range(27000, 30000, 500)

logger.addHandler(logging.NullHandler())  # HAProxy's lines would be between those of a benchmark


def free_port_base() -> int:
    """Find a range of ports without a listener; each xdist worker searches its own half."""
    taken, bases = {port for port, _ in listeners()}, _BASES[WORKER % 2 :: 2]
    return next(base for base in bases if not taken & set(range(base, base + 500)))


def application(
    name: str,
    prefix: str,
    replicas: int = 1,
    user_config: dict[str, Any] | None = None,
    env: dict[str, str] | None = None,
    **args: object,
) -> dict[str, Any]:
    """Return the shipped inference application under another name and path, with changes."""
    return shipped_application(
        "inference",
        called=name,
        prefix=prefix,
        replicas=replicas,
        user_config=user_config or {},
        env=env,
        args=args,
    )


@dataclass
class FoundSystem:
    """The processes and logs of an instance.

    Attributes:
        edge: in front of Serve, if there is one.
    """

    instance: Instance
    edge: Edge | None = None

    @property
    def url(self) -> str:
        """The URL of inference applications at the edge, or of all at Serve's front without one."""
        return self.instance.base_url if self.edge else self.instance.front_url

    def url_of(self, route: str) -> str:
        """Return the URL of an application at the edge's port for it, or at Serve's front."""
        return self.edge.url_of(route) if self.edge else self.instance.front_url + route

    def processes(self, title: str) -> list[psutil.Process]:
        """Return the processes with a text in their title or command line, oldest first."""
        found = filter(self.instance.owns, titled(psutil.process_iter(), title))
        return sorted(found, key=lambda process: process.create_time())

    def replicas(self, application: str) -> list[psutil.Process]:
        return self.processes(f"ray::ServeReplica:{application}:")

    def state_actors(self) -> list[psutil.Process]:
        return self.processes("ray::StateActor")

    def serve_logs(self, name: str = "") -> str:
        """Return the logs of Serve whose file names begin with ``name``."""
        folder = self.instance.ray_dir / "session_latest" / "logs" / "serve"
        return "".join(path.read_text() for path in sorted(folder.glob(f"{name}*.log")))

    def keep_logs(self, folder: Path) -> None:
        """Copy the logs of the supervisor, the edge, Ray and Serve, and what Serve reports."""
        session = self.instance.ray_dir / "session_latest"
        for name, logs in {"": self.instance.data_dir, "ray": session.resolve()}.items():
            if (logs / "logs").exists():
                shutil.copytree(logs / "logs", folder / name, ignore_dangling_symlinks=True)
        with contextlib.suppress(httpx.HTTPError):
            found = self.instance.dashboard.applications()
            (folder / "applications.json").write_text(json.dumps(found, indent=1))


def list_of(dashboard: RayDashboard, what: str) -> list[dict[str, Any]]:
    """Return what Ray's dashboard lists: actors or nodes."""
    answer = dashboard.get(f"/api/v0/{what}?limit=1000&detail=1", timeout_s=20.0)
    listed: list[dict[str, Any]] = answer.json()["data"]["result"]["result"]
    return listed


@dataclass
class System(FoundSystem):
    """A system without a supervisor, and the applications deployed on it.

    Attributes:
        config: what surrounds the applications.
    """

    applications: dict[str, dict[str, Any]] = field(default_factory=dict)
    config: Config = field(default_factory=shipped_config)

    def deploy(self, *applications: dict[str, Any], timeout_s: float = 180) -> float:
        """Add or change applications, and return after how many seconds all run."""
        started = time.monotonic()
        self.applications |= {each["name"]: each for each in applications}
        http_options = self.config["http_options"] | {"port": self.instance.ports.front}
        config = self.config | {"http_options": http_options}
        config["applications"] = list(self.applications.values())
        deploy(self.instance.dashboard, config)
        wait_until_running(self.instance.dashboard, list(self.applications), timeout_s)
        # Serve's front receives the routes only after the applications run.
        wanted = {each["route_prefix"] for each in applications}
        wait_until(lambda: wanted <= self._routes(), FRONT_S, "the front has every route")
        return time.monotonic() - started

    def _routes(self) -> set[str]:
        routes = httpx.get(f"{self.instance.front_url}/-/routes", timeout=FRONT_S)
        return set(routes.raise_for_status().json())

    def remove(self, *names: str) -> None:
        for name in names:
            del self.applications[name]
        self.deploy()

    def start_edge(self) -> Edge:
        """Put an edge in front, and keep its replicas as its supervisor does, until it ends."""
        cities = cities_of({"applications": self.applications.values()})
        edge = Edge(self.instance, cities=cities)
        managed = start_edge(edge)
        threading.Thread(target=managed.wait, name="edge", daemon=True).start()
        replicas = edge.serve_front().replicas()
        routes = [*APPLICATIONS.values(), *(city.route for city in cities)]
        wanted = sum(len(replicas.get(route, ())) for route in routes)
        wait_until(
            lambda: len(edge.replica_servers().present()) >= wanted,
            EDGE_TIMEOUT_S,
            f"the edge has {wanted} replicas",
        )
        return edge


def start_edge(edge: Edge) -> ManagedEdge:
    """Start an edge without a supervisor, and return when every port answers.

    Raises:
        EdgeError: it cannot start.
    """
    edge.check()
    managed = ManagedEdge(edge)
    managed.start_or_adopt()
    wait_until(edge.answers, EDGE_TIMEOUT_S, "every port of the edge answers")
    return managed


@contextlib.contextmanager
def running_system(
    *applications: dict[str, Any],
    port_base: int | None = None,
    config: Config | None = None,
    edge: bool | None = False,
    env: Mapping[str, str] | None = None,
) -> Iterator[System]:
    """Start a system with these applications, and stop it.

    Args:
        config: what surrounds the applications; by default, serve_config.yaml.
        edge: put an edge in front of Serve, on the ports from ``port_base`` on; None only keeps
            these ports for one.
        env: environment variables of Ray.
    """
    temp_dir = Path(tempfile.mkdtemp(prefix="gwb-", dir="/tmp"))
    ports = Ports.from_base(port_base or free_port_base())
    ports = ports.without_edge() if edge is False else ports
    env = {"PYTHONPATH": str(ROOT), **(env or {})}
    instance = Instance(temp_dir / "data", ports, temp_dir=temp_dir, env=env)
    with states_folder():
        try:
            instance.start()
            system = System(instance, config=config or shipped_config())
            if applications:
                system.deploy(*applications)
            if edge:
                system.edge = system.start_edge()
            yield system
        finally:
            instance.stop()
            shutil.rmtree(temp_dir, ignore_errors=True)
