"""On which addresses the processes of a system listen."""

import contextlib
import ipaddress
from collections.abc import Iterable, Iterator

import psutil


def listening(processes: Iterable[psutil.Process]) -> Iterator[tuple[str, str, int]]:
    """Yield the name of the process, address and port of each listening TCP socket."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            for connection in process.net_connections("tcp"):
                if connection.status == psutil.CONN_LISTEN:
                    yield process.name(), connection.laddr.ip, connection.laddr.port


def open_to_others(processes: Iterable[psutil.Process]) -> list[str]:
    """Name each listening socket that another machine may reach."""
    found = set(listening(processes))
    return [f"{name} at {ip}:{port}" for name, ip, port in sorted(found) if not _is_loopback(ip)]


def _is_loopback(address: str) -> bool:
    ip = ipaddress.ip_address(address)
    mapped = getattr(ip, "ipv4_mapped", None)  # 3.11 does not look into these
    return (mapped or ip).is_loopback
