"""Free ports for the servers of tests."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import socket

# Below the kernel's range for outgoing connections, which could take a port that was just free,
# and apart from Ray's ports and those of instances (load_tests/harness/system.py).
_PORTS = range(11_000, 20_000)
# The number of this process among those of pytest-xdist; -1 outside of them.
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw-1").removeprefix("gw"))
# Two HAProxies can listen at one port without an error, so processes that test side by side have
# separate ports.
_OWN = _PORTS[WORKER + 1 :: 16]
# In turn: drawn at random, a port that was found free could be found again before it is used.
_ports = itertools.cycle(random.sample(_OWN, len(_OWN)))


def free_ports(number: int, host: str = "127.0.0.1") -> list[int]:
    """Find so many ports of a local address without a listener."""
    found: list[int] = []
    with contextlib.ExitStack() as held:
        while len(found) < number:
            port = next(_ports)
            with contextlib.suppress(OSError):
                held.enter_context(socket.create_server((host, port)))
                found.append(port)
    return found


def free_port(host: str = "127.0.0.1") -> int:
    """Find one port."""
    return free_ports(1, host)[0]
