"""The edge: an HAProxy on the ports that the services' documents name, in front of Serve's port.

It lets only a service's own paths through its port, tells Serve the client's address, and answers
in the service's own form while Serve is away. It speaks HTTPS, and nothing else, when
EDGE_CERTIFICATE names a PEM file with certificate and key. One listener leads to all of Serve, in
plain HTTP and for this machine alone, unless told otherwise: the inference service's.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import subprocess
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from string import Template
from typing import Any

import psutil

from serve_app.processes.haproxy import find_haproxy
from serve_app.processes.instance import Instance
from serve_app.processes.ports import holder, is_free
from serve_app.processes.process_tags import MARK, PART, Part, read_command

TEMPLATE = Path(__file__).resolve().parents[2] / "configs" / "edge.cfg.tmpl"
# Serve's front; Ray's Python proxy in its place; the front once more, given up two seconds later.
# And the front for bodies that are too long to be held back: they have places of their own.
SERVERS = """\
    use-server long if {{ req.body_size gt 65536 }} or {{ req.body_len gt 65536 }}
    server long 127.0.0.1:{front} weight 0 maxconn 100 inter 500ms fall 4 observe none
    server front 127.0.0.1:{front}
    server fallback 127.0.0.1:{fallback} backup
    server held 127.0.0.1:{front} backup inter 500ms fall 4 observe none
"""
# Predictions for each core: what keeps it busy, and what may wait for that. Two cores are done with
# both together in 100 ms.
AT_ONCE, WAITING = 80, 90
# What the template leads to behind each listener.
ROUTES = {
    "inference": {"/"},
    "gateway": {"/api", "/api/accounts", "/console"},
    "density": {"/density", "/flow"},
    "loans": {"/api/loans"},
    "cards": {"/api/cards"},
}
SECOND_PATHS = frozenset({"/api/account"})  # the template leads them to other applications
CHECK_TIMEOUT_S = 10.0
START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5.0


class EdgeError(RuntimeError):
    """The edge cannot be started; the message is one clear sentence. The system runs without it."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The edge did not start: {reason.rstrip('.')}.")


def behind_edge(config: dict[str, Any], instance: Instance) -> dict[str, Any]:
    """Return what a config needs on an instance: with an edge, nothing for its second paths."""
    if instance.ports.front == instance.ports.http:
        return config
    applications = config["applications"]
    needed = [each for each in applications if each.get("route_prefix") not in SECOND_PATHS]
    return {**config, "applications": needed}


@dataclass(frozen=True)
class EdgePorts:
    """The documents' default ports but the inference service's, which is ``Ports.http``."""

    gateway: int = 8080
    density: int = 8001
    loans: int = 8090
    cards: int = 9000

    @classmethod
    def from_base(cls, base: int) -> EdgePorts:
        """Take four ports from ``base`` + 20 on, within those of a second instance."""
        return cls(*range(base + 20, base + 24))


@dataclass(frozen=True)
class Edge:
    """The edge of one instance.

    Attributes:
        instance: whose front port it stands before, and whose ``stop`` ends it.
        host: address to listen on.
        inference_host: the same for the inference service's port, behind which most has no login.
        certificate: PEM file with certificate and key; None for plain HTTP.
    """

    instance: Instance
    ports: EdgePorts = field(default_factory=EdgePorts)
    host: str = "127.0.0.1"
    certificate: Path | None = None
    inference_host: str = "127.0.0.1"

    @property
    def config(self) -> Path:
        return self.instance.data_dir / "edge.cfg"

    @property
    def _log(self) -> Path:
        return self.instance.data_dir / "edge.log"

    def listeners(self) -> dict[str, tuple[str, int]]:
        """Return where each service is listened for, as seen from this machine."""
        ports = self.instance.ports
        inference = {} if ports.front == ports.http else {"inference": ports.http}
        peers = dict.fromkeys(asdict(self.ports), _peer(self.host))
        peers["inference"] = _peer(self.inference_host)
        return {n: (peers[n], port) for n, port in (inference | asdict(self.ports)).items()}

    def urls(self) -> dict[str, str]:
        """Return the base URL of each listener, for this machine."""
        scheme = "https" if self.certificate else "http"
        schemes = dict.fromkeys(asdict(self.ports), scheme) | {"inference": "http"}
        return {n: f"{schemes[n]}://{host}:{port}" for n, (host, port) in self.listeners().items()}

    def render(self) -> str:
        """Return the configuration as HAProxy reads it."""
        tls = (
            f" ssl crt '{self.certificate.resolve()}' alpn h2,http/1.1" if self.certificate else ""
        )
        listeners, ports, cores = self.listeners(), self.instance.ports, os.cpu_count() or 1
        return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
            {f"{name}_port": port for name, port in asdict(self.ports).items()},
            host=self.host,
            tls=tls,
            inference=f"bind {self.inference_host}:{ports.http}"
            if "inference" in listeners
            else "disabled",
            metrics=ports.edge_metrics,
            at_once=AT_ONCE * cores,
            waiting=WAITING * cores,
            servers=SERVERS.format(front=ports.front, fallback=ports.fallback_http).rstrip(),
        )

    def check(self) -> None:
        """Find out whether it can start; it must not be running.

        Raises:
            EdgeError: no HAProxy here, a port is taken, or HAProxy refuses the configuration.
        """
        binary()
        taken_up = {name: port for name, (_, port) in self.listeners().items()}
        for name, port in (taken_up | {"metrics": self.instance.ports.edge_metrics}).items():
            if not is_free(port):
                raise EdgeError(f"port {port} ({name}) is taken{holder(port)}")
        self.write()

    def write(self) -> bool:
        """Write the configuration; return whether it is another than before.

        Raises:
            EdgeError: HAProxy refuses it, and the one before stays.
        """
        text = self.render()
        if self.certificate and self.certificate.exists():  # may have been renewed in its place
            text += f"# certificate {hashlib.sha256(self.certificate.read_bytes()).hexdigest()}\n"
        if self.config.exists() and self.config.read_text(encoding="utf-8") == text:
            return False
        self.instance.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        trial = self.config.with_suffix(".trial")
        trial.write_text(text, encoding="utf-8")
        _check(trial)
        trial.replace(self.config)
        return True

    def command(self) -> list[str]:
        """Return the command that runs it in the foreground: a master, which reloads at SIGUSR2."""
        return [binary(), "-W", "-db", "-f", str(self.config)]

    def start(self) -> None:
        """Start, or start anew, and return when every port answers.

        Raises:
            EdgeError: as ``check``, or HAProxy does not listen in time.
        """
        self.stop()
        self.check()
        with self._log.open("wb") as log:
            haproxy = subprocess.Popen(
                self.command(),
                env=os.environ | {MARK: self.instance.mark, PART: Part.EDGE},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.answers():
            if haproxy.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise EdgeError(f"see {self._log}")
            time.sleep(0.05)

    def answers(self) -> bool:
        """Return whether something listens on each port."""
        return all(map(_answers, self.listeners().values()))

    def is_running(self) -> bool:
        return bool(self._processes())

    def master(self) -> psutil.Process | None:
        """Return the process that the others of the edge are children of."""
        processes = {process.pid: process for process in self._processes()}
        for process in processes.values():
            with contextlib.suppress(psutil.Error):
                if process.ppid() not in processes:
                    return process
        return None

    def stop(self) -> None:
        processes = self._processes()
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()
        psutil.wait_procs(processes, timeout=STOP_TIMEOUT_S)

    def _processes(self) -> list[psutil.Process]:
        """Find the edge: Serve's own HAProxy bears the mark too, but has another configuration."""
        found = []
        for process in self.instance.processes():
            with contextlib.suppress(psutil.Error):
                if str(self.config) in read_command(process):
                    found.append(process)
        return found


def _peer(host: str) -> str:
    """Return the address by which this machine reaches who listens on a host."""
    return "127.0.0.1" if host in ("", "*", "0.0.0.0", "::") else host


def _answers(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=1.0).close()
    except OSError:
        return False
    return True


def _check(config: Path) -> None:
    command = [binary(), "-c", "-f", str(config)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=CHECK_TIMEOUT_S)
    if checked.returncode:
        lines = checked.stderr.splitlines()
        alerts = (line.partition(" : ")[2] for line in lines if line.startswith("[ALERT]"))
        raise EdgeError(next(alerts, f"HAProxy refuses {config}"))


def binary() -> str:
    """Return the path of HAProxy.

    Raises:
        EdgeError: there is none.
    """
    if (found := find_haproxy()) is None:
        raise EdgeError("there is no HAProxy here (Ray brings one on Linux)")
    return found
