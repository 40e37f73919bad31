"""HAProxy, for the edge and for Serve's front: where it is, and what it prints."""

from __future__ import annotations

import logging
import os
import sys
import time
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
_EXPECTED = ("[NOTICE]", " is UP", "maintenance")  # a replica was added or removed
_EXPECTED_AT_START = (" is DOWN", "has no server available!")


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
        # Short names: Serve adds the node's id, and HAProxy binds a longer one.
        "RAY_SERVE_HAPROXY_SOCKET_PATH": str(folder / "sock"),
        "RAY_SERVE_HAPROXY_METRICS_SOCKET_PATH": str(folder / "log"),
        "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(folder),
        "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": str(folder / "server-state"),
    }


def forward_log(output: IO[bytes], logger: logging.Logger) -> None:
    """Log every line until the output ends; HAProxy may outlive its reader."""
    started = time.monotonic()
    with output:
        for line in output:
            text = line.decode(errors="replace").rstrip()
            starting = time.monotonic() - started < STARTING_S
            logger.log(level_of(text, starting=starting), "HAProxy: %s", text)


def level_of(line: str, *, starting: bool) -> int:
    """Return the level of a line of HAProxy.

    The edge starts before Serve, so it reports every server DOWN at first, which deserves no
    warning.
    """
    expected = (*_EXPECTED, *_EXPECTED_AT_START) if starting else _EXPECTED
    return logging.INFO if any(each in line for each in expected) else logging.WARNING
