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
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psutil

from deployments.gateway import EDGE_VARIABLE
from serve_app.errors import InstanceError
from serve_app.processes.haproxy import front_environment, front_files
from serve_app.processes.ports import Ports, holder, is_free
from serve_app.processes.private_folder import make_private, user_folder
from serve_app.processes.process_tags import (
    CODE_TAG,
    INSTANCE_TAG,
    ROLE_TAG,
    Role,
    has_instance_tag,
    read_tag,
    role_of,
)
from serve_app.ray_dashboard import RayDashboard, token_environment

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 5.0  # replicas and state actors take 1 s; Ray's helpers would stay
SUPERVISOR_STOP_TIMEOUT_S = 40.0  # longer than everything that it stops
PORT_TIMEOUT_S = 15.0
FREE_DISK_BYTES = 1 << 30
OBJECT_STORE_BYTES = 256 << 20  # nothing here travels through the object store
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
        self._check_disk()
        self._check_ports()
        environment = os.environ | self._environment() | self._token_environment()
        with self.log.open("wb") as log:
            head = subprocess.Popen(
                self._command(),
                env=environment,
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
            if ended() is not None or time.monotonic() > deadline:
                tail = self.log.read_text(errors="replace").strip().splitlines()[-5:]
                self.stop_ray()
                raise InstanceError(
                    f"Ray did not start; {self.log} ends with:\n  " + "\n  ".join(tail)
                )
            time.sleep(0.1)

    def head(self) -> psutil.Process | None:
        """Return the process that runs ``ray start``, if it is alive."""
        with contextlib.suppress(psutil.Error):
            head = psutil.Process(self._recorded_session() or 0)
            return head if self.owns(head) and has_instance_tag(head, self.tag) else None
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
        """Remove what a stopped cluster leaves behind.

        Raises:
            InstanceError: it may be another user's.
        """
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
            ours = process.pid != os.getpid() and (
                in_session or has_instance_tag(process, self.tag)
            )
            return ours and process.status() != psutil.STATUS_ZOMBIE
        return False

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

    def _command(self) -> list[str]:
        ports = self.ports
        # Without the data folder on the path, which is the working folder.
        ray = [sys.executable, "-P", "-m", "deployments.ray_private.command"]
        # The monitor is for autoscaling in a cloud, and all of Ray ends when it dies.
        command = [*ray, "start", "--head", "--block", "--disable-usage-stats", "--no-monitor"]
        options = {
            "port": ports.gcs,
            "dashboard-host": "127.0.0.1",
            "dashboard-port": ports.dashboard,
            "dashboard-agent-listen-port": ports.agent,
            "ray-client-server-port": ports.ray_client,
            "include-log-monitor": False,  # it is for drivers, and no driver runs
            "metrics-export-port": ports.metrics,
            "min-worker-port": ports.workers[0],
            "max-worker-port": ports.workers[1],
            "node-ip-address": "127.0.0.1",
            "object-store-memory": OBJECT_STORE_BYTES,
            "temp-dir": self.ray_dir,
        }
        return command + [f"--{name}={value}" for name, value in options.items()]

    def _token_environment(self) -> dict[str, str]:
        try:
            return token_environment(self.token_file)
        except OSError as error:
            raise InstanceError(
                f"Cannot write Ray's token to {self.token_file}: {error.strerror}."
                " Set RAY_AUTH_TOKEN."
            ) from error

    def _environment(self) -> dict[str, str]:
        ports = self.ports
        return {
            INSTANCE_TAG: self.tag,
            **({EDGE_VARIABLE: self.base_url} if self.has_edge else {}),
            ROLE_TAG: Role.RAY,
            "DATA_DIR": str(self.data_dir.resolve()),
            "RAY_SERVE_HAPROXY_METRICS_PORT": str(ports.haproxy_metrics),
            "RAY_SERVE_HAPROXY_STATS_PORT": str(ports.haproxy_stats),
            "RAY_SERVE_FALLBACK_PROXY_HTTP_PORT": str(ports.fallback_http),
            "RAY_SERVE_FALLBACK_PROXY_GRPC_PORT": str(ports.fallback_grpc),
            "RAY_SERVE_DIRECT_INGRESS_MIN_HTTP_PORT": str(ports.replicas[0]),
            "RAY_SERVE_DIRECT_INGRESS_MAX_HTTP_PORT": str(ports.replicas[1]),
            # A busy machine does not start a proxy within Serve's 5 s; Serve then kills it, and the
            # deploy fails.
            "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
            # Ray's 15 would give everything else on the machine priority over replicas.
            "RAY_worker_niceness": "0",
            # Prestarted workers lack the environment of the applications, so none would be used.
            "RAY_prestart_worker_first_driver": "0",
            # Ended calls that the dashboard lists. Each takes 4 kB in the GCS, and a hundred end in
            # a minute: with Ray's default of 100,000 it would grow for hours.
            "RAY_task_events_max_num_task_in_gcs": "1000",
            # Unused metrics: the time of each handler, hundreds in a second at rest,
            # and the memory of the dashboard's processes, which Ray measures every 5 s.
            "RAY_event_stats": "0",
            "METRICS_RECORD_INTERVAL_S": "60",
            # Bind all of Ray's ports to loopback. Otherwise Ray replaces 127.0.0.1 by the machine's
            # address, and listens on all addresses.
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            **front_environment(),
            **front_files(self.haproxy_dir),
            **self.env,
        }

    def _check_disk(self) -> None:
        for place in (self.data_dir, self.runtime_dir):
            free = shutil.disk_usage(place).free
            if free < FREE_DISK_BYTES:
                raise InstanceError(
                    f"Only {free >> 20} MB are free on the disk of {place}, and Ray needs 1 GB."
                )

    def _check_ports(self) -> None:
        deadline = time.monotonic() + PORT_TIMEOUT_S
        ports = self.ports.single()
        del ports["http"], ports["edge_metrics"]  # of the edge
        for name, port in ports.items():
            while not is_free(port):
                owner = holder(port)
                # without a listener, a connection of a killed process holds it for a moment
                if owner or time.monotonic() > deadline:
                    raise InstanceError(
                        f"Port {port} (for {name.replace('_', ' ')}) is taken{owner}."
                        " Stop that program, or choose other ports with --port-base."
                    )
                time.sleep(0.1)
