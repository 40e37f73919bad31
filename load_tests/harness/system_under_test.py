"""A whole system, started, changed and stopped by the commands that users have."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml

from load_tests.harness.redis_server import RedisServer
from load_tests.harness.shipped import ROOT, Config, shipped_config
from load_tests.harness.states_folder import states_folder
from load_tests.harness.system import FoundSystem, free_port_base
from load_tests.harness.waiting import wait_until
from serve_app.errors import PACKAGES
from serve_app.identity.first_user import FILE_NAME
from serve_app.processes.edge import Edge
from serve_app.processes.installation import releases_of
from serve_app.processes.instance import Instance
from serve_app.processes.ports import Ports

WHOLE_S = 120.0  # for everything to run again after a fault
FRONT = ("haproxy.cfg", "ray::HAProxyManager")  # Serve replaces the second 4 s after the first ends
_UP_S = 300.0


class FaultInjectionError(RuntimeError):
    """A fault could not be injected, or did not have the effect that it must have."""


@dataclass(kw_only=True)
class SystemUnderTest(FoundSystem):
    """A serve config with its own ports, folders, Redis and copy of the code.

    It is started, changed and stopped by the commands that users have.

    Attributes:
        code: the folder of the copy.
        env: environment variables of every command.
        served: the configs that were deployed, the current one last.
        said: what the commands wrote.
    """

    edge: Edge
    redis: RedisServer
    port_base: int
    code: Path
    env: dict[str, str]
    served: list[Config] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def run(self, *command: str, given: str = "") -> str:
        """Run one of greenwave's commands on this system, and return what it wrote.

        Args:
            given: on its standard input.

        Raises:
            FaultInjectionError: it failed; with what it wrote.
        """
        program = [sys.executable, "-P", "-m", "serve_app.cli.main"]  # the copied code
        done = subprocess.run(
            [*program, *command, "--port-base", str(self.port_base)],
            cwd=self.code,
            env=os.environ | self.env,
            capture_output=True,
            text=True,
            input=given,
            timeout=_UP_S,
        )
        self.said.append(done.stderr)
        if done.returncode:
            wrote = done.stderr.strip() or done.stdout.strip()
            raise FaultInjectionError(f"greenwave {command[0]} failed: {wrote}")
        return done.stdout

    def deploy(self, config: Config, command: str = "deploy") -> None:
        """Deploy a config with the present code."""
        path = self.code / "config.yaml"
        path.write_text(yaml.safe_dump(config))
        self.run(command, str(path))
        self.served.append(config)

    def roll_back(self) -> None:
        self.run("rollback")
        self.served.pop()

    def prepare(self, config: Config) -> None:
        """Deploy a config unless it is served, and wait until everything runs.

        Raises:
            FaultInjectionError: something does not run in time.
        """
        if self.served[-1:] != [config]:
            self.deploy(config)
        if not self.wait_until_whole():
            raise FaultInjectionError("Not every application ran before the fault.")

    def append(self, file: Path, line: str) -> None:
        """Add a line to a file of the code."""
        with (self.code / file).open("a") as code:
            code.write(f"\n{line}\n")

    def is_whole(self) -> bool:
        """Return whether all of the release and the front run, and no replica starts or ends."""
        try:
            found = self.instance.dashboard.applications()
        except httpx.HTTPError:
            return False
        release = releases_of(self.instance).current()
        return (
            release is not None
            and all(self.processes(title) for title in FRONT)
            and all(
                each["name"] in found and is_running(found[each["name"]], each)
                for each in release["applications"]
            )
        )

    def wait_until_whole(self, timeout_s: float = WHOLE_S) -> bool:
        """Wait until everything runs; return whether it does in time."""
        with contextlib.suppress(TimeoutError):
            wait_until(self.is_whole, timeout_s, "every application runs")
            return True
        return False

    def inference_access(self) -> dict[str, str]:
        """Return the header with the token of the inference service, if it asks for one."""
        token = self.env.get("INFERENCE_TOKEN")
        return {"Authorization": f"Bearer {token}"} if token else {}

    def log_in(self) -> str:
        """Return a token of the user that the settings name, or of the first user."""
        if password := self.env.get("JWT_AUTH_PASSWORD"):
            user = {"username": self.env["JWT_AUTH_USERNAME"], "password": password}
        else:
            user = json.loads((self.instance.data_dir / FILE_NAME).read_text())
        url = f"{self.edge.urls()['gateway']}/api/auth/login"
        answer = httpx.post(url, json=user, timeout=10.0).raise_for_status()
        token: str = answer.json()["accessToken"]
        return token


def is_running(application: Mapping[str, Any], config: Config) -> bool:
    """Return whether an application runs with all replicas of its config.

    Args:
        application: as Ray's dashboard has it.
    """
    found = application["deployments"].values()
    states = [replica["state"] for each in found for replica in each["replicas"]]
    wanted = sum(
        each.get("num_replicas") or each["autoscaling_config"]["min_replicas"]
        for each in config["deployments"]
    )
    return {application["status"], *states} == {"RUNNING"} and len(states) >= wanted


@contextlib.contextmanager
def system_under_test(
    settings: Mapping[str, str] | None = None,
    redis: RedisServer | None = None,
    config: Config | None = None,
) -> Iterator[SystemUnderTest]:
    """Start a system as `make up` does, and stop it.

    Args:
        settings: environment variables for all of it.
        redis: in place of one without a password.
        config: in place of the shipped one.

    Raises:
        FaultInjectionError: it does not start; with what the command wrote.
    """
    folder = Path(tempfile.mkdtemp(prefix="gwd-", dir="/tmp"))
    base, code = free_port_base(), folder / "code"
    redis = redis or RedisServer(folder / "redis")
    env = {"DATA_DIR": str(folder / "data"), "STORE_URL": redis.url, "PYTHONPATH": str(code)}
    env |= settings or {}
    data_dir = folder / "data" / f"ports-{base}"  # as Settings.of_instance has it
    instance = Instance(data_dir, Ports.from_base(base))
    edge = Edge(instance)
    sut = SystemUnderTest(instance, edge=edge, redis=redis, port_base=base, code=code, env=env)
    with states_folder():
        try:
            for name in (*PACKAGES, "configs"):
                shutil.copytree(ROOT / name, code / name)
            redis.start()
            sut.deploy(config or shipped_config(), "up")
            sut.prepare(sut.served[-1])
            yield sut
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired, FaultInjectionError):
                sut.run("down")
            instance.stop()
            redis.stop()
            shutil.rmtree(folder, ignore_errors=True)
            instance.remove_runtime_files()
