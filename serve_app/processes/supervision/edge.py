"""Keeps the edge: HAProxy with the configuration that ``greenwave up`` has written."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable

import psutil

from serve_app.processes.edge import Edge, EdgeError
from serve_app.processes.ports import holder, is_free
from serve_app.processes.supervision.haproxy_log import pass_on
from serve_app.processes.supervision.restarts import CannotRunError

LOOK_S = 0.2
STOP_TIMEOUT_S = 2.0


class KeptEdge:
    """The edge as a charge; there is none while nobody has written its configuration."""

    def __init__(self, edge: Edge, sleep: Callable[[float], None] = time.sleep) -> None:
        self._edge = edge
        self._sleep = sleep
        self._master: psutil.Process | None = None

    def begin(self) -> float:
        while not self._edge.config.exists():
            self._sleep(LOOK_S)
        self._master = self._edge.master() or self._start()
        return self._master.create_time()

    def _start(self) -> psutil.Process:
        self._edge.stop()  # a worker may outlive its master for a moment
        try:
            check_ports(self._edge.config.read_text(encoding="utf-8"))
            haproxy = subprocess.Popen(
                self._edge.command(),
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            threading.Thread(
                target=pass_on, args=[haproxy.stderr], name="haproxy", daemon=True
            ).start()
            return psutil.Process(haproxy.pid)
        except (EdgeError, OSError, psutil.NoSuchProcess) as error:
            raise CannotRunError(str(error)) from error

    def wait(self) -> str:
        if self._master:
            self._master.wait()
        return "The edge has ended."

    def stop(self) -> None:
        """Let requests under way end, for a moment."""
        if self._master:
            with contextlib.suppress(psutil.Error):
                self._master.send_signal(signal.SIGUSR1)
                self._master.wait(STOP_TIMEOUT_S)
        self._edge.stop()


def check_ports(config: str) -> None:
    """Find out whether all that a configuration binds is free.

    Raises:
        EdgeError: a port is taken.
    """
    for port in map(int, re.findall(r"^\s*bind \S*:(\d+)", config, re.MULTILINE)):
        if not is_free(port):
            raise EdgeError(f"port {port} is taken{holder(port)}")
