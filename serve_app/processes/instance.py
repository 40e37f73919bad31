"""One Ray cluster on this machine that belongs to Greenwave: started, found again and stopped by
its data folder.

``ray stop`` would stop every Ray process of the machine. So our processes are told by the session
they were started in and by a mark in their environment, and no other is ever signalled.
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
from typing import Any

import httpx
import psutil

from deployments.gateway import EDGE_VARIABLE
from serve_app import ray_dashboard
from serve_app.processes.haproxy import front_environment
from serve_app.processes.ports import Ports, holder, is_free
from serve_app.processes.process_tags import MARK, PART, Part, is_marked, part_of
from serve_app.ray_token import token_mode

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 5.0  # replicas and state actors end within one; what stays are Ray's own, for ever
KEEPERS_STOP_TIMEOUT_S = 40.0  # longer than all that they stop may take
PORT_TIMEOUT_S = 15.0
FREE_DISK_BYTES = 1 << 30
OBJECT_STORE_BYTES = 256 << 20  # nothing here travels through the object store


class InstanceError(RuntimeError):
    """The cluster cannot be started or stopped; the message is one clear sentence."""


@dataclass(frozen=True)
class Instance:
    """Where an instance lives.

    Attributes:
        data_dir: state that outlives the instance, and the note of the running one.
        temp_dir: Ray's logs and sockets; short, because socket paths are limited to 107 bytes.
    """

    data_dir: Path
    ports: Ports = field(default_factory=Ports)
    temp_dir: Path | None = None
    env: dict[str, str] = field(default_factory=dict)

    @property
    def base_url(self) -> str:
        """Where clients find everything."""
        return f"http://127.0.0.1:{self.ports.http}"

    @property
    def front_url(self) -> str:
        """Serve's own front: ``base_url`` without the edge, its hop and its care."""
        return f"http://127.0.0.1:{self.ports.front}"

    @property
    def dashboard_url(self) -> str:
        return f"http://127.0.0.1:{self.ports.dashboard}"

    @property
    def ray_dir(self) -> Path:
        """Ray's own folder, which other clusters may share."""
        return self.temp_dir or Path("/tmp/ray")

    @property
    def mark(self) -> str:
        """The value of GREENWAVE_INSTANCE in the environment of each process of the instance."""
        return str(self.data_dir.resolve())

    @property
    def _note(self) -> Path:
        return self.data_dir / "instance.json"

    @property
    def log(self) -> Path:
        return self.data_dir / "ray-start.log"

    def is_running(self) -> bool:
        """Return whether the instance's head process lives and its dashboard answers."""
        return self._dashboard_answers() and bool(self.processes())

    def start(self) -> None:
        """Start the Ray head and return when its dashboard answers."""
        self.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._check_disk()
        self._check_ports()
        environment = os.environ | self._environment() | self._token_mode()
        self._close_haproxy_dir()
        with self.log.open("wb") as log:
            head = subprocess.Popen(
                self._command(),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        note = {"pid": head.pid, "boot_time": psutil.boot_time(), "ports": self.ports.single()}
        self._note.write_text(json.dumps(note))
        self.wait_until_started(head.poll)

    def wait_until_started(self, ended: Callable[[], int | None]) -> None:
        """Return when the dashboard answers.

        Args:
            ended: returns the exit code of the head, None while it lives.
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
        """Return the living process that Ray was started by."""
        with contextlib.suppress(psutil.Error):
            head = psutil.Process(self._noted_session() or 0)
            return head if self.owns(head) and is_marked(head, self.mark) else None
        return None

    def stop(self) -> bool:
        """Stop every process of the instance, keepers first; return False when there was none."""
        found = bool(self.processes())
        for part in (Part.SUPERVISOR, Part.NODE, Part.EDGE):
            self._end(part, KEEPERS_STOP_TIMEOUT_S)
        self.stop_ray()
        return found

    def stop_ray(self, patience_s: float = STOP_TIMEOUT_S) -> None:
        """Stop what is neither a keeper nor the edge, at once where ``patience_s`` is 0."""
        self._end(Part.RAY, patience_s)
        self._note.unlink(missing_ok=True)

    def _end(self, part: Part, patience_s: float) -> None:
        for signal_number, wait_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, 5.0)):
            if wait_s and (processes := self.processes(part)):
                for process in processes:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.send_signal(signal_number)
                psutil.wait_procs(self.processes(part), timeout=wait_s)

    def processes(self, part: Part | None = None) -> list[psutil.Process]:
        """Return every living process of the instance, or of one part of it."""
        return [
            process
            for process in psutil.process_iter()
            if self.owns(process) and part in (None, part_of(process))
        ]

    def owns(self, process: psutil.Process) -> bool:
        """Return whether a process lives and belongs to the instance."""
        session = self._noted_session()
        with contextlib.suppress(psutil.Error, OSError):
            in_session = session is not None and os.getsid(process.pid) == session
            ours = process.pid != os.getpid() and (in_session or is_marked(process, self.mark))
            return ours and process.status() != psutil.STATUS_ZOMBIE
        return False

    def as_started(self) -> Instance:
        """Return the instance with the ports that it was started with, if it was."""
        note = self._read_note()
        noted = note["ports"] if note else {}  # an earlier version's may name more
        known = {name: noted[name] for name in self.ports.single() if name in noted}
        return replace(self, ports=replace(self.ports, **known))

    def _noted_session(self) -> int | None:
        """Return the session that the head was started in, unless the machine has booted since."""
        note = self._read_note()
        return note["pid"] if note else None

    def _read_note(self) -> dict[str, Any] | None:
        try:
            note: dict[str, Any] = json.loads(self._note.read_text())
        except (OSError, ValueError):
            return None
        return note if note.get("boot_time") == psutil.boot_time() else None

    def _dashboard_answers(self) -> bool:
        try:
            answer = ray_dashboard.get(
                self.dashboard_url, ray_dashboard.APPLICATIONS, timeout_s=5.0
            )
        except httpx.HTTPError:
            return False
        return answer.is_success

    def _command(self) -> list[str]:
        ports = self.ports
        ray = str(Path(sys.executable).with_name("ray"))
        # The monitor asks a cloud for machines, and Ray ends as a whole when it dies.
        command = [ray, "start", "--head", "--block", "--disable-usage-stats", "--no-monitor"]
        options = {
            "port": ports.gcs,
            "dashboard-host": "127.0.0.1",
            "dashboard-port": ports.dashboard,
            "dashboard-agent-listen-port": ports.agent,
            "ray-client-server-port": ports.ray_client,
            "include-log-monitor": False,  # it is for drivers, and there are none
            "metrics-export-port": ports.metrics,
            "min-worker-port": ports.workers[0],
            "max-worker-port": ports.workers[1],
            "node-ip-address": "127.0.0.1",
            "object-store-memory": OBJECT_STORE_BYTES,
        }
        if self.temp_dir:
            options["temp-dir"] = str(self.temp_dir)
        return command + [f"--{name}={value}" for name, value in options.items()]

    @property
    def _haproxy_dir(self) -> Path:
        # Serve adds the node's id, and a socket's path may have 97 bytes: hence the short name.
        return self.temp_dir / "ha" if self.temp_dir else Path("/tmp/haproxy-serve")

    def _close_haproxy_dir(self) -> None:
        """Keep others from HAProxy's socket, which would obey anybody."""
        self._haproxy_dir.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(PermissionError):  # another user's; Serve says so
            self._haproxy_dir.chmod(0o700)

    def _token_mode(self) -> dict[str, str]:
        try:
            return token_mode()
        except OSError as error:
            raise InstanceError(
                f"Ray's token cannot be kept at {error.filename}: {error.strerror}; set"
                " RAY_AUTH_TOKEN."
            ) from error

    def _environment(self) -> dict[str, str]:
        ports = self.ports
        haproxy = self._haproxy_dir
        return {
            MARK: self.mark,
            **({} if ports.front == ports.http else {EDGE_VARIABLE: self.base_url}),
            PART: Part.RAY,
            "DATA_DIR": str(self.data_dir.resolve()),
            "RAY_SERVE_HAPROXY_METRICS_PORT": str(ports.haproxy_metrics),
            "RAY_SERVE_HAPROXY_STATS_PORT": str(ports.haproxy_stats),
            "RAY_SERVE_FALLBACK_PROXY_HTTP_PORT": str(ports.fallback_http),
            "RAY_SERVE_FALLBACK_PROXY_GRPC_PORT": str(ports.fallback_grpc),
            "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": str(haproxy / "haproxy.cfg"),
            "RAY_SERVE_HAPROXY_SOCKET_PATH": str(haproxy / "admin.sock"),
            "RAY_SERVE_HAPROXY_METRICS_SOCKET_PATH": str(haproxy / "metrics.sock"),
            "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(haproxy),
            "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": str(haproxy / "server-state"),
            "RAY_SERVE_DIRECT_INGRESS_MIN_HTTP_PORT": str(ports.replicas[0]),
            "RAY_SERVE_DIRECT_INGRESS_MAX_HTTP_PORT": str(ports.replicas[1]),
            # In Serve's 5 s a busy machine does not start a proxy, which is then killed, and the
            # deploy with it.
            "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
            # Ray's 15 would let everything else on the machine go before who serves.
            "RAY_worker_niceness": "0",
            # Workers without the environment of any application, which nobody would ever use.
            "RAY_prestart_worker_first_driver": "0",
            # Ended calls that the dashboard tells of: a few lines of them are read, not 100,000.
            "RAY_task_events_max_num_task_in_gcs": "5000",
            # All of Ray's ports on the loopback, as where nobody makes clusters; else it takes the
            # machine's own address instead of 127.0.0.1, and listens on every one.
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            **front_environment(),
            **self.env,
        }

    def _check_disk(self) -> None:
        for place in {self.data_dir, self.ray_dir.parent}:
            free = shutil.disk_usage(place).free if place.exists() else FREE_DISK_BYTES
            if free < FREE_DISK_BYTES:
                raise InstanceError(
                    f"Only {free >> 20} MB are free on the disk of {place}; 1 GB is needed."
                )

    def _check_ports(self) -> None:
        deadline = time.monotonic() + PORT_TIMEOUT_S
        ports = self.ports.single()
        del ports["http"], ports["edge_metrics"]  # the edge's, or the front's
        for name, port in ports.items():
            while not is_free(port):
                who = holder(port)
                # without a listener it is a killed process' connection, and soon over
                if who or time.monotonic() > deadline:
                    raise InstanceError(
                        f"Port {port} (for {name.replace('_', ' ')}) is taken"
                        f"{who}; stop that program, or choose other ports with --port-base."
                    )
                time.sleep(0.1)
