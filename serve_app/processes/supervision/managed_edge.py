"""The edge under supervision: HAProxy with the configuration that ``greenwave up`` writes.

While it runs, it is given Serve's replicas as servers.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time

import psutil

from serve_app.errors import EdgeError
from serve_app.processes.edge import Edge, check_ports
from serve_app.processes.haproxy import forward_log
from serve_app.processes.replica_servers import ReplicaServerError
from serve_app.processes.supervision.managed_process import logger

POLL_S = 0.2
RECONCILE_S = 0.5
STOP_TIMEOUT_S = 2.0


class ManagedEdge:
    """The edge as a managed process. It does not start before its configuration is written."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self._master: psutil.Process | None = None

    def start_or_adopt(self) -> float:
        while not self._edge.config.exists():
            time.sleep(POLL_S)
        self._master = self._edge.master() or self._start()
        return self._master.create_time()

    def _start(self) -> psutil.Process:
        self._edge.stop()  # a worker may outlive its master for a moment
        try:
            check_ports(self._edge.config.read_text(encoding="utf-8"))
            haproxy = self._edge.launch(subprocess.PIPE)
            threading.Thread(
                target=forward_log, args=[haproxy.stderr, logger], name="haproxy", daemon=True
            ).start()
            return psutil.Process(haproxy.pid)
        except (OSError, psutil.NoSuchProcess) as error:
            raise EdgeError(str(error)) from error

    def wait(self) -> str:
        servers, front = self._edge.replica_servers(), self._edge.serve_front()
        refusal = ""
        while self._master and not _has_ended_within(self._master, RECONCILE_S):
            try:
                servers.reconcile(front.replicas())
                refusal = ""
            except (ReplicaServerError, OSError) as error:  # Serve's front takes the requests
                if str(error) != refusal:
                    logger.warning("%s", error)
                refusal = str(error)
        return "The edge has ended."

    def stop(self) -> None:
        """Give requests in progress a moment to end."""
        if self._master:
            with contextlib.suppress(psutil.Error):
                self._master.send_signal(signal.SIGUSR1)
                self._master.wait(STOP_TIMEOUT_S)
        self._edge.stop()


def _has_ended_within(process: psutil.Process, timeout_s: float) -> bool:
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:  # at once, where psutil polls
        ended, _, _ = select.select([descriptor], [], [], timeout_s)
    finally:
        os.close(descriptor)
    if ended:
        process.wait()
    return bool(ended)
