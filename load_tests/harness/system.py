"""A running system of one's own: one Ray cluster, its own ports and folders, apart from any
other."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from load_tests.harness.shipped import shipped_application, shipped_config
from serve_app.processes.instance import Instance
from serve_app.processes.ports import Ports, listeners
from serve_app.rollout.deploy import deploy, wait_until_running

_BASES = range(27000, 30000, 500)


def free_port_base() -> int:
    """Find a range of ports that no one listens in; each of xdist's workers has its own half."""
    taken = {port for port, _ in listeners()}
    half = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 2
    return next(base for base in _BASES[half::2] if not taken & set(range(base, base + 500)))


def application(
    name: str,
    prefix: str,
    replicas: int = 1,
    user_config: dict[str, Any] | None = None,
    env: dict[str, str] | None = None,
    **args: object,
) -> dict[str, Any]:
    """Return the shipped inference with another name, place, environment and arguments."""
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
class System:
    """An instance and the applications deployed on it."""

    instance: Instance
    applications: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.instance.front_url

    def deploy(self, *applications: dict[str, Any], timeout_s: float = 180) -> None:
        """Add or change applications and wait until all run."""
        self.applications |= {each["name"]: each for each in applications}
        config = shipped_config()
        config["http_options"] = {"host": "127.0.0.1", "port": self.instance.ports.front}
        config["applications"] = list(self.applications.values())
        deploy(self.instance.dashboard_url, config)
        wait_until_running(self.instance.dashboard_url, list(self.applications), timeout_s)

    def remove(self, *names: str) -> None:
        for name in names:
            del self.applications[name]
        self.deploy()

    def processes(self, title: str) -> list[psutil.Process]:
        """Return this system's Ray processes whose title starts with ``title``, oldest first."""
        found = [
            process
            for process in psutil.process_iter(["cmdline"])
            if "".join((process.info["cmdline"] or [])[:1]).startswith(title)
            and self.instance.owns(process)
        ]
        return sorted(found, key=lambda process: process.create_time())

    def replicas(self, name: str) -> list[psutil.Process]:
        return self.processes(f"ray::ServeReplica:{name}:")

    def kill(self, process: psutil.Process) -> None:
        process.send_signal(signal.SIGKILL)

    def kill_everything(self) -> None:
        for process in self.instance.processes():
            with contextlib.suppress(psutil.NoSuchProcess):  # Ray's own follow each other
                self.kill(process)


def make_instance(folder: Path, temp_dir: Path, ports: Ports | None = None, **env: str) -> Instance:
    # Two seconds of draining instead of thirty: the tests scale down and wait for it.
    env = {"RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "2"} | env
    ports = ports or Ports.from_base(free_port_base())
    return Instance(folder, ports, temp_dir=temp_dir, env=env)
