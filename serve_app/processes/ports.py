"""The ports of an instance, and the processes that hold ports of this machine."""

from __future__ import annotations

import argparse
import contextlib
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import psutil

OF_EDGE = ("gateway", "density", "loans", "cards")


@dataclass(frozen=True)
class Ports:
    """Every port of an instance. The services' documents name ``http`` and those of the edge alone.

    Attributes:
        http: of the inference service, at the edge, or of Serve itself without an edge.
        front: of Serve, behind the edge.
    """

    http: int = 8000
    dashboard: int = 8265
    gcs: int = 6390  # Ray's usual 6379 is also that of Redis
    agent: int = 52365
    metrics: int = 9105
    haproxy_metrics: int = 9101
    haproxy_stats: int = 8404
    fallback_http: int = 8500  # Ray's Python proxy, behind HAProxy
    fallback_grpc: int = 9500
    front: int = 8100
    edge_metrics: int = 9102
    gateway: int = 8080
    density: int = 8001
    loans: int = 8090
    cards: int = 9000
    workers: tuple[int, int] = (20000, 20999)
    replicas: tuple[int, int] = (30000, 30999)

    @classmethod
    def from_base(cls, base: int) -> Ports:
        """Return the 500 ports from ``base`` on, for a second instance on one machine."""
        names = [name for name in cls().single() if name not in OF_EDGE]
        single = dict(zip(names, range(base, base + len(names)), strict=True))
        edge = dict(zip(OF_EDGE, range(base + 20, base + 24), strict=True))
        workers, replicas = (base + 100, base + 299), (base + 300, base + 499)
        return cls(**single, **edge, workers=workers, replicas=replicas)

    def without_edge(self) -> Ports:
        """Return the ports with Serve at the port of the edge."""
        return replace(self, front=self.http)

    def of_edge(self) -> dict[str, int]:
        """Return the ports of services that only the edge has."""
        return {name: getattr(self, name) for name in OF_EDGE}

    def single(self) -> dict[str, int]:
        return {name: port for name, port in asdict(self).items() if isinstance(port, int)}


def add_port_base(
    parser: argparse.ArgumentParser,
    help: str = "the instance that `up` started with the same --port-base",
) -> None:
    """Add ``--port-base``: the first of the 500 ports of a second instance."""
    parser.add_argument("--port-base", type=_read_port_base, help=help)


def _read_port_base(text: str) -> int:
    if not text.isdecimal() or not 1024 <= int(text) <= 65_035:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1024 to 65035")
    return int(text)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def listeners() -> Iterator[tuple[int, int | None]]:
    """Yield every TCP port that has a listener, with the process id if it may be known."""
    for connection in psutil.net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr:
            yield connection.laddr.port, connection.pid


def holder(port: int) -> str:
    """Return the listener of a port, as the end of a sentence; empty if unknown."""
    with contextlib.suppress(psutil.Error, StopIteration):
        process = psutil.Process(next(pid for p, pid in listeners() if p == port and pid))
        return f" by {process.name()} (process {process.pid})"
    return ""
