"""HAProxy, for the edge and for Serve's front: where it is, and what it prints."""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from deployments.ray_private import haproxy_front
from deployments.ray_private.haproxy_front import bundled
from serve_app.errors import EdgeError

STARTING_S = 5.0  # every server is checked within a second, and given up after another one

_BINARY_OF_SERVE = "RAY_SERVE_HAPROXY_BINARY_PATH"
_BINARY = "GREENWAVE_HAPROXY"
_INTERPRETER = "GREENWAVE_PYTHON"
_SCRIPT = Path(haproxy_front.__file__).with_suffix(".sh")
_STATE = re.compile(r"[Ss]erver (\S+) is (UP|DOWN)\b")
_NO_SERVER = "has no server available!"
_MAINTENANCE = "maintenance"  # a replica was added or removed


def find_haproxy() -> str | None:
    """Return the path of HAProxy: Ray's own on Linux, or one that Serve's variable names."""
    named = os.environ.get(_BINARY_OF_SERVE)
    if named and Path(named).name != _SCRIPT.name:
        return named if os.access(named, os.X_OK) else None
    return os.environ.get(_BINARY) or bundled()


def binary() -> str:
    """Return the path of HAProxy.

    Raises:
        EdgeError: there is none.
    """
    if (found := find_haproxy()) is None:
        raise EdgeError("there is no HAProxy here (Ray brings one on Linux)")
    return found


def front_environment() -> dict[str, str]:
    """Return the variables with which Serve starts its front by :mod:`.haproxy_front`."""
    if (program := find_haproxy()) is None:
        return {}
    return {_BINARY_OF_SERVE: str(_SCRIPT), _BINARY: program, _INTERPRETER: sys.executable}


def front_files(folder: Path) -> dict[str, str]:
    """Return the variables that have Serve write its front's files and sockets below a folder."""
    return {
        "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": str(folder / "haproxy.cfg"),
        # A short name: Serve adds the node's id, and HAProxy binds a longer one.
        "RAY_SERVE_HAPROXY_SOCKET_PATH": str(folder / "sock"),
        "RAY_SERVE_HAPROXY_METRICS_SOCKET_PATH": str(folder / "metrics.sock"),
        "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(folder),
        "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": str(folder / "server-state"),
    }


class LogLevels:
    """Levels of HAProxy's lines.

    The edge starts before Serve, so it reports every server DOWN at first, and UP later. Neither
    deserves a warning.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = clock()
        self._awaited: set[str] = set()

    def of(self, line: str) -> int:
        """Return the level of a line, as ``logging`` counts them."""
        is_expected = (
            line.startswith("[NOTICE]") or _MAINTENANCE in line or self._belongs_to_start(line)
        )
        return logging.INFO if is_expected else logging.WARNING

    def _belongs_to_start(self, line: str) -> bool:
        starting = self._clock() - self._started < STARTING_S
        found = _STATE.search(line)
        if found is None:
            return starting and _NO_SERVER in line
        server, state = found.groups()
        if state == "DOWN":
            if starting:
                self._awaited.add(server)
            return starting
        was_awaited = server in self._awaited
        self._awaited.discard(server)
        return was_awaited


def forward_log(output: IO[bytes], logger: logging.Logger) -> None:
    """Log every line until the output ends; HAProxy may outlive its reader."""
    levels = LogLevels()
    with output:
        for line in output:
            text = line.decode(errors="replace").rstrip()
            logger.log(levels.of(text), "HAProxy: %s", text)
