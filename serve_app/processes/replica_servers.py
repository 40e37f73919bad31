"""Replicas as servers of the edge, added and removed while it runs.

Serve lists its replicas in the configuration of its own HAProxy. The edge reads that list and sends
requests to them directly, so a request passes one HAProxy instead of two. Servers are added and
removed through HAProxy's runtime API. A reload would leave an old worker behind with its
connections.
https://docs.haproxy.org/2.8/management.html#9.3
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from deployments.ray_private.haproxy_front import PREFIX, missing, server_id, weight
from serve_app.processes.edge_backends import Backend, backends_in

API_TIMEOUT_S = 2.0
_ROUTE = re.compile(r"^ *acl is_(\S+) path (\S+)$", re.MULTILINE)
_BACKEND = re.compile(r"^backend (\S+)$(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_SERVER = re.compile(rf"^ *server ({PREFIX}\S+) (\S+:\d+) (?!.*\bbackup\b)", re.MULTILINE)
# The settings of `default-server` in the edge's template, which a server added at runtime does not
# inherit. The check asks for the route of the application, so a replica of another one at the same
# port does not pass it.
_ADD = (
    "add server {server} {address} id {id} weight {weight} maxconn {maxconn}"
    " check inter 2s fastinter 250ms downinter 250ms fall 2 rise 1"
    " observe layer4 error-limit 1 on-error mark-down"
    "; enable health {server}; enable server {server}"
)
# Fails, and is tried again, as long as a connection to it is open.
_REMOVE = "set server {server} state maint; del server {server}"
_EXPECTED = re.compile("New server registered|Server deleted|still has connections")
_IN_MAINTENANCE = 0x01

Servers = dict[str, str]  # address by name


class Present(NamedTuple):
    """A replica among the edge's servers."""

    address: str
    is_in_maintenance: bool
    id: int


class ReplicaServerError(Exception):
    """The edge refuses a server."""


@dataclass(frozen=True)
class ServeFront:
    """The configuration of Serve's HAProxy.

    Attributes:
        folder: with a folder for each node that has been started.
        port: of Serve's front. Other clusters of this machine have another one.
    """

    folder: Path
    port: int

    def replicas(self) -> dict[str, Servers]:
        """Return the servers of each route prefix; none before Serve has written them."""
        return next(map(parse_replicas, self._written()), {})

    def missing(self) -> list[str]:
        """Return a sentence for each setting that the configuration lacks."""
        return next(([*missing(text)] for text in self._written()), [])

    def _written(self) -> Iterator[str]:
        """Yield each node's configuration, newest first."""
        bind = re.compile(rf"^ *bind \S*:{self.port}\s*$", re.MULTILINE)
        for config in sorted(self.folder.glob("*/haproxy.cfg"), key=_mtime, reverse=True):
            text = config.read_text(encoding="utf-8", errors="replace")
            if bind.search(text):
                yield text


def _mtime(config: Path) -> float:
    try:
        return config.stat().st_mtime
    except OSError:
        return 0.0


def parse_replicas(config: str) -> dict[str, Servers]:
    """Return the replicas of each route prefix in a configuration that Serve has written."""
    backends = {name: dict(_SERVER.findall(lines)) for name, lines in _BACKEND.findall(config)}
    return {route: backends.get(backend, {}) for backend, route in _ROUTE.findall(config)}


class ReplicaServers:
    """The replicas in the backends of a running edge.

    Args:
        api: HAProxy's socket.
        config: the edge's configuration, whose backends it has; it is replaced as a whole.
    """

    def __init__(self, api: Path, config: Path) -> None:
        self._api = api
        self._config = config
        self._seen: dict[str, Servers] | None = None

    def reconcile(self, replicas: dict[str, Servers]) -> None:
        """Add and remove servers until the edge has those of Serve.

        Serve rewrites its file in place, so only what is the same at two calls counts.

        Raises:
            OSError: the edge does not answer.
            ReplicaServerError: it refuses a server, and has the others.
        """
        settled, self._seen = replicas == self._seen, replicas
        if not settled:
            return
        backends = _backends_of(self._config, self._config.stat().st_mtime_ns)
        wanted = {
            f"{name}/{server}": address
            for name, backend in backends.items()
            for server, address in replicas.get(backend.route, {}).items()
        }
        present = self.present()
        gone = [name for name, each in present.items() if each.address != wanted.get(name)]
        paused = [
            name
            for name, each in present.items()
            if each.address == wanted.get(name) and each.is_in_maintenance
        ]
        taken = {each.id for each in present.values()}
        new = [server for server in wanted if server not in present]
        self._run(
            [_REMOVE.format(server=server) for server in gone]
            + [f"enable server {server}" for server in paused]
            + [
                _addition(server, wanted[server], backends[server.partition("/")[0]], taken)
                for server in new
            ]
        )

    def present(self) -> dict[str, Present]:
        """Return the replicas in the edge."""
        rows = [line.split() for line in self._ask("show servers state").splitlines()[1:]]
        titles = rows[0][1:]
        states = [dict(zip(titles, row, strict=False)) for row in rows[1:] if row]
        return {
            f"{each['be_name']}/{each['srv_name']}": Present(
                f"{each['srv_addr']}:{each['srv_port']}",
                bool(int(each["srv_admin_state"]) & _IN_MAINTENANCE),
                int(each["srv_id"]),
            )
            for each in states
            if each["srv_name"].startswith(PREFIX)
        }

    def _run(self, commands: list[str]) -> None:
        if not commands:
            return
        answers = self._ask("; ".join(commands)).splitlines()
        refusals = [line for line in answers if line and not _EXPECTED.search(line)]
        if refusals:
            raise ReplicaServerError(f"HAProxy refuses a replica: {refusals[0]}")

    def _ask(self, commands: str) -> str:
        folder = os.open(self._api.parent, os.O_PATH)
        try:  # by its folder's descriptor: the path of a socket has at most 107 bytes
            with socket.socket(socket.AF_UNIX) as api:
                api.settimeout(API_TIMEOUT_S)
                api.connect(f"/proc/self/fd/{folder}/{self._api.name}")
                api.sendall(f"{commands}\n".encode())
                with api.makefile("rb") as stream:
                    answer = stream.read().decode()
        finally:
            os.close(folder)
        if not answer:  # the worker ended, or reloads
            raise ConnectionResetError("HAProxy's runtime API did not answer")
        return answer


@lru_cache(maxsize=1)
def _backends_of(config: Path, changed_ns: int) -> dict[str, Backend]:
    """Read the backends once for each change: they are asked for twice a second."""
    return backends_in(config.read_text(encoding="utf-8"))


def _addition(server: str, address: str, backend: Backend, taken: set[int]) -> str:
    name = server.partition("/")[2]
    number = server_id(name, taken)
    taken.add(number)
    settings = {"id": number, "weight": weight(name), "maxconn": backend.maxconn}
    return _ADD.format(server=server, address=address, **settings)
