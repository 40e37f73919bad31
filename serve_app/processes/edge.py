"""The edge: an HAProxy on the ports that the services' documents name, in front of Serve.

Requests that may be repeated go to the replicas directly, as :mod:`.replica_servers` adds them. All
others, and everything while it knows no replica, pass Serve's own HAProxy.

A port forwards only its service's own paths, with the client's address, and answers in the
service's form while Serve is away. It refuses pages of other sites and unknown host names. With
EDGE_CERTIFICATE, a PEM file with certificate and key, it speaks HTTPS only. The inference service's
port is plain HTTP, as is a Unix socket in the data folder, and also leads to applications that are
not shipped.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import IO, Any

import psutil

from serve_app.errors import EdgeError
from serve_app.processes.edge_backends import (
    City,
    backends_in,
    paths_of,
    replicas_backend,
    rules_of,
)
from serve_app.processes.haproxy import binary
from serve_app.processes.instance import Instance
from serve_app.processes.ports import OF_EDGE, holder, is_free
from serve_app.processes.private_folder import make_private
from serve_app.processes.process_tags import INSTANCE_TAG, ROLE_TAG, Role, read_command
from serve_app.processes.replica_servers import ReplicaServers, ServeFront
from serve_app.processes.status_file import StatusFile
from serve_app.rollout.capacity import INFERENCE

TEMPLATE = Path(__file__).resolve().parents[2] / "configs" / "edge.cfg.tmpl"
# Serve's front; Ray's Python proxy as its backup; the front again, given up two seconds later; and
# the front for bodies that are too long to be held back, which have separate slots.
SERVERS = """\
    use-server long if {{ req.body_size gt 65536 }} or {{ req.body_len gt 65536 }}
    server long 127.0.0.1:{front} weight 0 maxconn 100 inter 500ms fall 4 observe none
    server front 127.0.0.1:{front}
    server fallback 127.0.0.1:{fallback} backup
    server held 127.0.0.1:{front} backup inter 500ms fall 4 observe none"""
BACKENDS = """\
backend {application} from serve
    option httpchk GET /-/routes
    http-check expect string '"{route}":'
{servers}
"""
# A Unix socket for clients of this user on this machine, which takes less of the kernel's time.
INFERENCE_BINDS = """\
bind {address}
    bind unix@{socket} mode 600"""
# Predictions for each core, in progress at one server and waiting. Two cores finish both in 100 ms.
AT_ONCE, WAITING = 80, 90
# Applications with a separate backend in the template or in BACKENDS.
APPLICATIONS = {
    "inference": "/",
    "gateway": "/api",
    "accounts": "/api/accounts",
    "loans": "/api/loans",
    "cards": "/api/cards",
    "density": "/density",
    "flow": "/flow",
    "console": "/console",
}
# Routes behind each listener of the template.
ROUTES = {
    "inference": {"/"},
    "gateway": {"/api", "/api/accounts", "/console"},
    "density": {"/density", "/flow"},
    "loans": {"/api/loans"},
    "cards": {"/api/cards"},
}
FORBIDDEN = "This port refuses pages of other sites and hosts that EDGE_ALLOWED_HOSTS does not name"
SECOND_PATHS = frozenset({"/api/account"})  # the template sends them to other applications
CHECK_TIMEOUT_S = 10.0
START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5.0


def behind_edge(config: dict[str, Any], instance: Instance) -> dict[str, Any]:
    """Return the config without applications that only serve the edge's second paths."""
    if instance.ports.front == instance.ports.http:
        return config
    applications = config["applications"]
    needed = [each for each in applications if each.get("route_prefix") not in SECOND_PATHS]
    return {**config, "applications": needed}


@dataclass(frozen=True)
class Edge:
    """The edge of one instance.

    Attributes:
        instance: in front of which it listens, and whose ``stop`` ends it.
        host: address to listen on.
        certificate: PEM file with certificate and key; None for plain HTTP.
        inference_host: address for the inference service's port, which needs no login.
        allowed_hosts: host names of requests and pages to accept, beside this machine's own.
        cities: applications at other paths, whose replicas it leads to directly.
    """

    instance: Instance
    host: str = "127.0.0.1"
    certificate: Path | None = None
    inference_host: str = "127.0.0.1"
    allowed_hosts: tuple[str, ...] = ()
    cities: tuple[City, ...] = ()

    @property
    def config(self) -> Path:
        return self.instance.data_dir.resolve() / "edge.cfg"  # HAProxy runs in that folder

    @property
    def socket(self) -> Path:
        """HAProxy's runtime API, which knows it by its name in the data folder."""
        return self.instance.data_dir / "edge.sock"

    @property
    def inference_socket(self) -> Path:
        """The inference service's port, as a Unix socket."""
        return self.instance.data_dir / "inference.sock"

    def listeners(self) -> dict[str, tuple[str, int]]:
        """Return the address of each listener, as seen from this machine."""
        ports = self.instance.ports
        inference = {} if ports.front == ports.http else {"inference": ports.http}
        peers = dict.fromkeys(OF_EDGE, _peer(self.host)) | {"inference": _peer(self.inference_host)}
        return {n: (peers[n], port) for n, port in (inference | ports.of_edge()).items()}

    def urls(self) -> dict[str, str]:
        """Return the base URL of each listener, as seen from this machine."""
        scheme = "https" if self.certificate else "http"
        schemes = dict.fromkeys(OF_EDGE, scheme) | {"inference": "http"}
        return {n: f"{schemes[n]}://{host}:{port}" for n, (host, port) in self.listeners().items()}

    def url_of(self, route: str) -> str:
        """Return the URL of an application: at Serve's front, if that has the inference port."""
        listener = next((name for name, routes in ROUTES.items() if route in routes), "inference")
        return self.urls().get(listener, self.instance.front_url) + route

    def render(self) -> str:
        """Return the configuration as HAProxy reads it."""
        tls = (
            f" ssl crt '{self.certificate.resolve()}' alpn h2,http/1.1" if self.certificate else ""
        )
        listeners, ports = self.listeners(), self.instance.ports
        bound = [_peer(each) for each in (self.host, self.inference_host)]
        own = [f"[{each}]" if ":" in each else each for each in bound]
        names = dict.fromkeys(["localhost", "127.0.0.1", "[::1]", *own, *self.allowed_hosts])
        servers = SERVERS.format(front=ports.front, fallback=ports.fallback_http)
        of_runs = {"at_once": _of_all_cores(AT_ONCE), "waiting": _of_all_cores(WAITING)}
        backends = [
            BACKENDS.format(application=name, route=route, servers=servers)
            for name, route in APPLICATIONS.items()
            if name != "inference"
        ]
        shipped = [City(name, route, name) for name, route in APPLICATIONS.items()]
        cities = [city._replace(name=f"city-{city.name}") for city in self.cities]
        for name, route, kind in shipped + cities:
            bounds = of_runs if kind in ("inference", INFERENCE) else {}
            backends.append(replicas_backend(name, route, **bounds))
        return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
            {f"{name}_port": port for name, port in ports.of_edge().items()},
            host=self.host,
            tls=tls,
            inference=INFERENCE_BINDS.format(
                address=f"{self.inference_host}:{ports.http}", socket=self.inference_socket.name
            )
            if "inference" in listeners
            else "disabled",
            names=" ".join(names),
            allowed=" ".join(self.allowed_hosts),
            # By which names clients reach other addresses than loopback is not known here.
            checked="always_true" if self.allowed_hosts else "dst 127.0.0.0/8 ::1",
            forbidden=FORBIDDEN,
            metrics=ports.edge_metrics,
            **of_runs,
            socket=self.socket.name,
            servers=servers,
            city_paths=paths_of(self.cities),
            city_rules=rules_of(self.cities),
            backends="\n".join(backends),
        )

    def replica_servers(self) -> ReplicaServers:
        """Return the replicas as servers of the edge, in the backends that it has now."""
        return ReplicaServers(self.socket, self.config)

    def lacks_cities(self) -> bool:
        """Return whether the edge that runs leads to some of the cities through Serve's front."""
        try:
            backends = backends_in(self.config.read_text("utf-8")).values()
        except OSError:  # there is no edge
            return False
        return not {city.route for city in self.cities} <= {each.route for each in backends}

    def serve_front(self) -> ServeFront:
        """Return where Serve writes which replicas there are."""
        return ServeFront(self.instance.haproxy_dir, self.instance.ports.front)

    def check(self) -> None:
        """Write the configuration of an edge that does not run, if it can start.

        Raises:
            EdgeError: there is no HAProxy, a port is taken, or HAProxy refuses the configuration.
        """
        binary()
        check_ports(self.render())
        self.write()

    def write(self) -> bool:
        """Write the configuration; return whether it has changed.

        Raises:
            EdgeError: HAProxy refuses it, and the one before stays.
        """
        text = self.render()
        if self.certificate and self.certificate.exists():  # may have been renewed in its place
            text += f"# certificate {hashlib.sha256(self.certificate.read_bytes()).hexdigest()}\n"
        if self.config.exists() and self.config.read_text(encoding="utf-8") == text:
            return False
        make_private(self.instance.data_dir)
        candidate = self.config.with_suffix(".new")
        candidate.write_text(text, encoding="utf-8")
        _check_syntax(candidate)
        candidate.replace(self.config)
        return True

    def apply(self, status_file: StatusFile) -> None:
        """Have its supervisor run the edge with the present configuration.

        An edge that runs with another configuration reloads it: the old worker takes no new
        connections, answers those that it has, and ends.

        Raises:
            EdgeError: as :meth:`check`, or the supervisor cannot start it.
        """
        master = self.master()
        if master is None:
            self.config.unlink(missing_ok=True)
            self.check()
        elif self.write():
            master.send_signal(signal.SIGUSR2)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not (self.is_running() and self.answers()):
            if time.monotonic() > deadline:
                raise EdgeError(status_file.read().error or "see its log")
            time.sleep(0.05)

    def take_down(self) -> None:
        """Stop the edge; its supervisor waits for another configuration."""
        self.config.unlink(missing_ok=True)
        self.stop()

    def launch(self, errors: IO[bytes] | int) -> subprocess.Popen[bytes]:
        """Start a master, which reloads at SIGUSR2.

        Args:
            errors: where it writes its log.
        """
        return subprocess.Popen(
            [binary(), "-W", "-db", "-f", str(self.config)],
            cwd=self.instance.data_dir,
            env=os.environ | {INSTANCE_TAG: self.instance.tag, ROLE_TAG: Role.EDGE},
            stdin=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )

    def answers(self) -> bool:
        """Return whether every port accepts connections, and the socket is there, which is last."""
        return all(map(_answers, self.listeners().values())) and self.socket.exists()

    def is_running(self) -> bool:
        return bool(self._processes())

    def master(self) -> psutil.Process | None:
        """Return the parent of the other processes of the edge."""
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
        """Find the edge. Serve's own HAProxy has the tags too, but another configuration."""
        config = str(self.config)
        return [each for each in self.instance.processes() if config in read_command(each)]


def _of_all_cores(count: int) -> int:
    return count * (os.cpu_count() or 1)


def _peer(host: str) -> str:
    """Return the address by which this machine reaches a listener on the host."""
    return "127.0.0.1" if host in ("", "*", "0.0.0.0", "::") else host


def _answers(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=1.0).close()
    except OSError:
        return False
    return True


def _check_syntax(config: Path) -> None:
    command = [binary(), "-c", "-f", str(config)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=CHECK_TIMEOUT_S)
    if checked.returncode:
        lines = checked.stderr.splitlines()
        alerts = (line.partition(" : ")[2] for line in lines if line.startswith("[ALERT]"))
        raise EdgeError(next(alerts, f"HAProxy refuses {config}"))


def check_ports(config: str) -> None:
    """Check that every port in a configuration is free.

    Raises:
        EdgeError: a port is taken.
    """
    for port in map(int, re.findall(r"^\s*bind \S*:(\d+)", config, re.MULTILINE)):
        if not is_free(port):
            raise EdgeError(f"port {port} is taken{holder(port)}")
