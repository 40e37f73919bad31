"""A whole system of one's own, started and stopped by the commands that users have."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from serve_app.credentials.first_user import FILE_NAME
from serve_app.launcher.deploy import statuses
from serve_app.launcher.edge import Edge, EdgePorts
from serve_app.launcher.instance import Instance
from serve_app.launcher.ports import Ports
from testbed.redis_server import RedisServer
from testbed.shipped import ROOT
from testbed.system import System, free_port_base

WHOLE_S = 90.0  # for everything to be there again after a fault
_UP_S = 300.0


@dataclass(frozen=True)
class House:
    """The shipped serve config on ports, folders and a Redis of its own.

    Attributes:
        system: for its processes; nothing is deployed through it.
        env: of every command.
    """

    system: System
    edge: Edge
    redis: RedisServer
    port_base: int
    env: dict[str, str]

    @property
    def instance(self) -> Instance:
        return self.system.instance

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run one of greenwave's commands on this system."""
        program = str(Path(sys.executable).with_name("greenwave"))
        return subprocess.run(
            [program, *command, "--port-base", str(self.port_base)],
            env=os.environ | self.env,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_UP_S,
        )

    def find(self, title: str) -> list[psutil.Process]:
        """Return this system's processes with this title or in whose command line it stands."""
        if title.startswith("ray::"):
            return self.system.processes(title)
        return [p for p in self.instance.processes() if title in " ".join(_command_line(p))]

    def is_whole(self) -> bool:
        """Tell whether every application runs with all of its replicas."""
        try:
            now = statuses(self.instance.dashboard_url)
        except httpx.HTTPError:
            return False
        return bool(now) and all(status == "RUNNING" for status, _ in now.values())

    def wait_until_whole(self, timeout_s: float = WHOLE_S) -> bool:
        return _wait(self.is_whole, timeout_s)

    def log_in(self) -> str:
        """Return a token of the first user."""
        user = json.loads((self.instance.data_dir / FILE_NAME).read_text())
        url = f"{self.edge.urls()['gateway']}/api/auth/login"
        answer = httpx.post(url, json=user, timeout=10.0).raise_for_status()
        token: str = answer.json()["accessToken"]
        return token


def _command_line(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


def _wait(condition: Callable[[], bool], timeout_s: float) -> bool:
    end = time.monotonic() + timeout_s
    while not (there := condition()) and time.monotonic() < end:
        time.sleep(0.2)
    return there


@contextlib.contextmanager
def open_house(config: Path = ROOT / "serve_config.yaml") -> Iterator[House]:
    """Start a system as `make up` does, and stop it.

    Raises:
        RuntimeError: it does not start; with what it said.
    """
    folder = Path(tempfile.mkdtemp(prefix="gwd-", dir="/tmp"))
    base = free_port_base()
    redis = RedisServer(folder / "redis")
    env = {"DATA_DIR": str(folder / "data"), "STORE_URL": redis.url, "PYTHONPATH": str(ROOT)}
    data_dir = folder / "data" / f"ports-{base}"  # as Settings.of_instance has it
    instance = Instance(data_dir, Ports.from_base(base), Path(f"/tmp/greenwave-{base}"))
    edge = Edge(instance, EdgePorts.from_base(base))
    house = House(System(instance), edge, redis, base, env)
    try:
        redis.start()
        started = house.run("up", str(config))
        if started.returncode or not house.wait_until_whole():
            raise RuntimeError(f"The system did not start: {started.stdout}{started.stderr}")
        yield house
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            house.run("down")
        instance.stop()
        redis.stop()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(instance.temp_dir or folder, ignore_errors=True)


def kill(processes: Sequence[psutil.Process]) -> None:
    """Kill with -9, whoever is still there.

    Raises:
        LookupError: there is none.
    """
    if not processes:
        raise LookupError("there is no process for this to happen to")
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL)
