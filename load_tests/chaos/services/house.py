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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import yaml

from load_tests.harness.redis_server import RedisServer
from load_tests.harness.shipped import ROOT, Config, shipped_config
from load_tests.harness.system import System, free_port_base
from serve_app.identity.first_user import FILE_NAME
from serve_app.processes.edge import Edge, EdgePorts
from serve_app.processes.instance import Instance
from serve_app.processes.ports import Ports
from serve_app.rollout.code_version import ROOTS

WHOLE_S = 90.0  # for everything to be there again after a fault
_UP_S = 300.0


class Mishap(RuntimeError):
    """Something could not be done to a system, or did not do what it should; says what."""


@dataclass(frozen=True)
class House:
    """A serve config on ports, folders, a Redis and a copy of the code of its own.

    Attributes:
        system: for its processes; nothing is deployed through it.
        code: where the copy is.
        env: of every command.
        served: the configs that were deployed, the present one last.
        said: what the commands wrote.
    """

    system: System
    edge: Edge
    redis: RedisServer
    port_base: int
    code: Path
    env: dict[str, str]
    served: list[Config] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    @property
    def instance(self) -> Instance:
        return self.system.instance

    def run(self, *command: str, given: str = "") -> str:
        """Run one of greenwave's commands on this system, and return what it wrote.

        Args:
            given: on its standard input.

        Raises:
            Mishap: it failed; with what it said.
        """
        program = str(Path(sys.executable).with_name("greenwave"))
        done = subprocess.run(
            [program, *command, "--port-base", str(self.port_base)],
            cwd=self.code,
            env=os.environ | self.env,
            capture_output=True,
            text=True,
            input=given,
            timeout=_UP_S,
        )
        self.said.append(done.stderr)
        if done.returncode:
            raise Mishap(f"{command[0]}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def deploy(self, config: Config, command: str = "deploy") -> None:
        """Deploy a config, and the code as it is."""
        path = self.code / "config.yaml"
        path.write_text(yaml.safe_dump(config))
        self.run(command, str(path))
        self.served.append(config)

    def roll_back(self) -> None:
        self.run("rollback")
        self.served.pop()

    def furnish(self, config: Config) -> None:
        """Deploy a config unless it is there, and wait until everything is."""
        if self.served[-1:] != [config]:
            self.deploy(config)
        if not self.wait_until_whole():
            raise Mishap("not everything was there beforehand")

    def append(self, file: Path, line: str) -> None:
        """Change the code."""
        with (self.code / file).open("a") as code:
            code.write(f"\n{line}\n")

    def find(self, title: str) -> list[psutil.Process]:
        """Return this system's processes with this title or in whose command line it stands."""
        if title.startswith("ray::"):
            return self.system.processes(title)
        return [p for p in self.instance.processes() if title in " ".join(_command_line(p))]

    def replicas(self, application: str) -> list[psutil.Process]:
        return self.find(f"ray::ServeReplica:{application}:")

    def is_whole(self) -> bool:
        """Tell whether every application runs with all of its replicas, and none starts or ends."""
        try:
            applications = self.instance.dashboard.applications().values()
        except httpx.HTTPError:
            return False
        return bool(applications) and all(map(_runs, applications))

    def wait_until_whole(self, timeout_s: float = WHOLE_S) -> bool:
        return _wait(self.is_whole, timeout_s)

    def log_in(self) -> str:
        """Return a token of the first user."""
        user = json.loads((self.instance.data_dir / FILE_NAME).read_text())
        url = f"{self.edge.urls()['gateway']}/api/auth/login"
        answer = httpx.post(url, json=user, timeout=10.0).raise_for_status()
        token: str = answer.json()["accessToken"]
        return token


def _runs(application: dict[str, Any]) -> bool:
    deployments = application["deployments"].values()
    replicas = [replica["state"] for each in deployments for replica in each["replicas"]]
    return {application["status"], *replicas} == {"RUNNING"}


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
def open_house(
    settings: Mapping[str, str] | None = None, redis: RedisServer | None = None
) -> Iterator[House]:
    """Start a system as `make up` does, and stop it.

    Args:
        settings: environment variables for all of it.
        redis: in place of one without a password.

    Raises:
        Mishap: it does not start; with what it said.
    """
    folder = Path(tempfile.mkdtemp(prefix="gwd-", dir="/tmp"))
    base, code = free_port_base(), folder / "code"
    redis = redis or RedisServer(folder / "redis")
    env = {"DATA_DIR": str(folder / "data"), "STORE_URL": redis.url, "PYTHONPATH": str(code)}
    env |= settings or {}
    data_dir = folder / "data" / f"ports-{base}"  # as Settings.of_instance has it
    instance = Instance(data_dir, Ports.from_base(base), Path(f"/tmp/greenwave-{base}"))
    edge = Edge(instance, EdgePorts.from_base(base))
    house = House(System(instance), edge, redis, base, code, env)
    try:
        for name in (*ROOTS, "configs"):
            shutil.copytree(ROOT / name, code / name)
        redis.start()
        house.deploy(shipped_config(), "up")
        house.furnish(shipped_config())
        yield house
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired, Mishap):
            house.run("down")
        instance.stop()
        redis.stop()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(instance.temp_dir or folder, ignore_errors=True)


def kill(processes: Sequence[psutil.Process]) -> None:
    """Kill with -9, whoever is still there.

    Raises:
        Mishap: there is none.
    """
    if not processes:
        raise Mishap("there is no process for this to happen to")
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL)
