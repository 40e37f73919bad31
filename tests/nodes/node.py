"""One machine of a cluster: Ray started in a namespace, with its own folders."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from load_tests.harness.processes import titled
from serve_app.ray_dashboard import RayDashboard
from tests.support.network import Network

GCS_PORT = 6379
DASHBOARD_PORT = 8265
HTTP_PORT = 8000
START_S = 90.0
_SHARED_FOLDERS = ("/tmp/ray", "/tmp/haproxy-serve")  # each machine has its own
_OWN_MEMORY = "mount -t tmpfs tmpfs /dev/shm"  # which ends with the machine
_OWN_PROCESSES = (
    "unshare",
    "--pid",
    "--fork",
    "--mount-proc",
)  # Ray searches for other Ray processes
OBJECT_STORE_BYTES = 100 << 20


class NodeError(RuntimeError):
    """Ray did not start; the message is its log."""


@dataclass
class Node:
    """A machine.

    Attributes:
        number: of its address; the first node is Ray's head.
        env: of ``ray start``.
    """

    network: Network
    number: int
    folder: Path
    env: Mapping[str, str]
    cpus: int = 4
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def is_head(self) -> bool:
        return self.number == 1

    @property
    def address(self) -> str:
        return self.network.address(self.number)

    @property
    def url(self) -> str:
        return f"http://{self.address}:{HTTP_PORT}"

    @property
    def log(self) -> Path:
        return self.folder / "ray-start.log"

    def start(self) -> None:
        """Start Ray; return without waiting for it."""
        own = [self.folder / Path(each).name for each in _SHARED_FOLDERS]
        for theirs, mine in zip(_SHARED_FOLDERS, own, strict=True):
            for folder in (Path(theirs), mine):
                folder.mkdir(parents=True, exist_ok=True)
        mounts = [
            shlex.join(("mount", "--bind", str(mine), theirs))
            for theirs, mine in zip(_SHARED_FOLDERS, own, strict=True)
        ]
        in_namespace = ("ip", "netns", "exec", self.network.namespace(self.number))
        script = " && ".join([*mounts, _OWN_MEMORY, "exec " + shlex.join(self._command())])
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*in_namespace, *_OWN_PROCESSES, "sh", "-c", script],
                env=os.environ | self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _command(self) -> list[str]:
        command = [str(Path(sys.executable).with_name("ray")), "start", "--block"]
        command += ["--disable-usage-stats", "--include-log-monitor=False"]
        command += [f"--node-ip-address={self.address}", f"--num-cpus={self.cpus}"]
        command += [f"--object-store-memory={OBJECT_STORE_BYTES}"]
        if not self.is_head:
            return [*command, f"--address={self.network.address(1)}:{GCS_PORT}"]
        where = f"--dashboard-host={self.address}"
        return [*command, "--head", "--no-monitor", f"--port={GCS_PORT}", where]

    def wait_until_started(self) -> None:
        """Return when the raylet runs, and on the head the dashboard, too."""
        deadline = time.monotonic() + START_S
        while not (self.find("raylet/raylet ") and (not self.is_head or self._answers())):
            ended = self._process is not None and self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                raise NodeError(self.log.read_text(errors="replace"))
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            RayDashboard(f"http://{self.address}:{DASHBOARD_PORT}").applications(timeout_s=5.0)
        except httpx.HTTPError:
            return False
        return True

    def find(self, title: str) -> list[psutil.Process]:
        """Return the node's processes whose command line contains a text, oldest first."""
        found = titled(self.network.processes(self.number), title)
        return sorted(found, key=lambda process: process.pid)

    def replicas(self, application: str) -> list[psutil.Process]:
        return self.find(f"ray::ServeReplica:{application}:")

    def state_actors(self) -> list[psutil.Process]:
        return self.find("ray::StateActor")

    def kill_raylet(self) -> None:
        for process in self.find("raylet/raylet "):
            process.send_signal(signal.SIGKILL)

    def kill(self) -> None:
        """Kill everything on the machine at once."""
        self.network.kill(self.number)
        if self._process is not None:
            self._process.wait(timeout=10)
            self._process = None
