"""One Ray cluster on this machine that belongs to Greenwave, and is found by its data folder.

``ray stop`` would stop every Ray process of the machine. So the processes of an instance are
recognised by their session and by a tag in their environment, and no other receives a signal.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psutil

from deployments.gateway import EDGE_VARIABLE
from serve_app.errors import InstanceError
from serve_app.processes import ray_head
from serve_app.processes.haproxy import front_environment, front_files
from serve_app.processes.ports import Ports
from serve_app.processes.private_folder import make_private, user_folder
from serve_app.processes.process_tags import (
    CODE_TAG,
    INSTANCE_TAG,
    ROLE_TAG,
    Role,
    read_tag,
    role_of,
)
from serve_app.ray_dashboard import RayDashboard

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 5.0  # replicas and state actors take 1 s; Ray's helpers would stay
SUPERVISOR_STOP_TIMEOUT_S = 40.0  # longer than everything that it stops
# HAProxy adds 10 bytes to a socket's path, which may have 107; Serve, the node's id of 56.
LONGEST_FOLDER = 97 - len("/ha/") - 56 - len("/sock")


def boot_id() -> str:
    """Return what names this start of the kernel. Its time changes when the clock is set."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


class RunningCode(NamedTuple):
    """The code that an instance runs.

    Attributes:
        since: in seconds of Unix time.
    """

    folder: Path
    version: str
    since: float


@dataclass(frozen=True)
class Instance:
    """The ports, folders and processes of one Ray cluster.

    Attributes:
        data_dir: what outlives the cluster, and the record of the running one.
        temp_dir: in place of the usual :attr:`runtime_dir`.
    """

    data_dir: Path
    ports: Ports = field(default_factory=Ports)
    temp_dir: Path | None = None
    env: dict[str, str] = field(default_factory=dict)

    @property
    def base_url(self) -> str:
        """URL for clients: of the edge, or of Serve itself without an edge."""
        return f"http://127.0.0.1:{self.ports.http}"

    @property
    def front_url(self) -> str:
        """URL of Serve itself."""
        return f"http://127.0.0.1:{self.ports.front}"

    @property
    def has_edge(self) -> bool:
        return self.ports.front != self.ports.http

    @property
    def dashboard_url(self) -> str:
        return f"http://127.0.0.1:{self.ports.dashboard}"

    @property
    def token_file(self) -> Path:
        """Where the token is kept that Ray asks for, unless the environment names another."""
        return self.data_dir / "ray-auth-token"

    @property
    def dashboard(self) -> RayDashboard:
        return RayDashboard(self.dashboard_url, self.token_file)

    @property
    def runtime_dir(self) -> Path:
        """Folder that lasts as long as the cluster: logs, sockets and the front's configuration."""
        return self.temp_dir or user_folder() / str(self.ports.http)

    @property
    def ray_dir(self) -> Path:
        """Ray's temporary folder, which Ray opens to all users."""
        return self.runtime_dir / "ray"

    @property
    def haproxy_dir(self) -> Path:
        """Where Serve has a folder for the HAProxy of each node."""
        return self.runtime_dir / "ha"

    @property
    def tag(self) -> str:
        """Value of GREENWAVE_INSTANCE in the environment of each process of the instance."""
        return str(self.data_dir.resolve())

    @property
    def _record(self) -> Path:
        return self.data_dir / "instance.json"

    @property
    def log(self) -> Path:
        return self.data_dir / "ray-start.log"

    def is_running(self) -> bool:
        """Return whether the instance has processes and its dashboard answers."""
        return self._dashboard_answers() and bool(self.processes())

    def start(self) -> None:
        """Start the Ray head and return when its dashboard answers."""
        self.make_folders()
        ray_head.check_disk(self.data_dir, self.runtime_dir)
        ray_head.check_ports(self.ports)
        with self.log.open("wb") as log:
            head = subprocess.Popen(
                ray_head.command(self.ports, self.ray_dir),
                env=os.environ | self._environment() | ray_head.token_variables(self.token_file),
                cwd=self.data_dir,  # Ray puts the working folder first on the path of its workers
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        record = {"pid": head.pid, "boot": boot_id(), "ports": self.ports.single()}
        self._record.write_text(json.dumps(record))
        self.wait_until_started(head.poll)

    def make_folders(self) -> None:
        """Create the folders, or check that no other user can read or replace what is in them.

        Raises:
            InstanceError: another user can, or the path of a socket would be too long.
        """
        length = len(os.fsencode(self.runtime_dir))
        if length > LONGEST_FOLDER:
            raise InstanceError(
                f"{self.runtime_dir} has {length} bytes, and more than {LONGEST_FOLDER} leave no"
                " room for the names of sockets. Use a shorter path."
            )
        for folder in (self.data_dir, self.runtime_dir):
            make_private(folder)

    def wait_until_started(self, ended: Callable[[], int | None]) -> None:
        """Return when the dashboard answers.

        Args:
            ended: returns the exit code of the head, None while it runs.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._dashboard_answers():
            code = ended()
            if code is not None or time.monotonic() > deadline:
                written = self.log.read_text(errors="replace").split("\n")
                why = next(filter(str.strip, reversed(written)), f"it ended with code {code}")
                if code is None:
                    why = f"it does not answer after {START_TIMEOUT_S:.0f} s"
                self.stop_ray()
                raise InstanceError(
                    f"Ray did not start: {why.strip().rstrip('.')}."
                    f" Its logs are in {self.ray_dir / 'session_latest' / 'logs'}."
                )
            time.sleep(0.1)

    def head(self) -> psutil.Process | None:
        """Return the process that runs ``ray start``, if it is alive."""
        with contextlib.suppress(psutil.Error):
            head = psutil.Process(self._recorded_session() or 0)
            return head if self.owns(head) and self._has_tag(head) else None
        return None

    def stop(self) -> bool:
        """Stop every process of the instance, its supervisor first; return False without any."""
        found = bool(self.processes())
        for part in (Role.SUPERVISOR, Role.EDGE):
            self._end(part, SUPERVISOR_STOP_TIMEOUT_S)
        self.stop_ray()
        return found

    def stop_ray(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop Ray without supervisor and edge; kill it at once if ``timeout_s`` is 0."""
        self._end(Role.RAY, timeout_s)
        self._record.unlink(missing_ok=True)

    def remove_runtime_files(self) -> None:
        """Remove the sockets that a stopped cluster leaves behind, and Ray's logs.

        Raises:
            InstanceError: they may be another user's.
        """
        for socket in self.data_dir.glob("*.sock"):  # of the edge
            socket.unlink(missing_ok=True)
        if self.runtime_dir.exists():
            make_private(self.runtime_dir)
            shutil.rmtree(self.runtime_dir, ignore_errors=True)

    def _end(self, part: Role, timeout_s: float) -> None:
        for signal_number, wait_s in ((signal.SIGTERM, timeout_s), (signal.SIGKILL, 5.0)):
            if wait_s and (processes := self.processes(part)):
                for process in processes:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.send_signal(signal_number)
                psutil.wait_procs(self.processes(part), timeout=wait_s)

    def processes(self, part: Role | None = None) -> list[psutil.Process]:
        """Return every process of the instance that is alive, or those with one role."""
        return [
            process
            for process in psutil.process_iter()
            if self.owns(process) and part in (None, role_of(process))
        ]

    def running_code(self) -> RunningCode | None:
        """Return which code runs, also while Ray restarts; None if no process has the tag."""
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                folder, _, version = (read_tag(process, CODE_TAG) or "").rpartition(" ")
                if folder:
                    return RunningCode(Path(folder), version, process.create_time())
        return None

    def owns(self, process: psutil.Process) -> bool:
        """Return whether a process is alive and belongs to the instance."""
        session = self._recorded_session()
        with contextlib.suppress(psutil.Error, OSError):
            in_session = session is not None and os.getsid(process.pid) == session
            ours = process.pid != os.getpid() and (in_session or self._has_tag(process))
            return ours and process.status() != psutil.STATUS_ZOMBIE
        return False

    def _has_tag(self, process: psutil.Process) -> bool:
        return read_tag(process, INSTANCE_TAG) == self.tag

    def with_recorded_ports(self) -> Instance:
        """Return the instance with the ports of its last start, if there was one."""
        record = self._read_record()
        recorded = record["ports"] if record else {}  # other versions may have other names
        known = {name: recorded[name] for name in self.ports.single() if name in recorded}
        return replace(self, ports=replace(self.ports, **known))

    def _recorded_session(self) -> int | None:
        """Return the session of the head, unless the machine has booted since its start."""
        record = self._read_record()
        return record["pid"] if record else None

    def _read_record(self) -> dict[str, Any] | None:
        try:
            record: dict[str, Any] = json.loads(self._record.read_text())
        except (OSError, ValueError):
            return None
        return record if record.get("boot") == boot_id() else None

    def _dashboard_answers(self) -> bool:
        try:
            self.dashboard.applications(timeout_s=5.0)
        except httpx.HTTPError:
            return False
        return True

    def _environment(self) -> dict[str, str]:
        return {
            INSTANCE_TAG: self.tag,
            **({EDGE_VARIABLE: self.base_url} if self.has_edge else {}),
            ROLE_TAG: Role.RAY,
            "DATA_DIR": str(self.data_dir.resolve()),
            **ray_head.environment(self.ports),
            **front_environment(),
            **front_files(self.haproxy_dir),
            **self.env,
        }
