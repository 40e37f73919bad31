"""supervisord over the supervisors, without a socket that anyone could reach."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from serve_app.errors import InstanceError
from serve_app.processes.instance import Instance
from serve_app.processes.process_tags import (
    INSTANCE_TAG,
    ROLE_TAG,
    Role,
    read_command,
)

LOG_BYTES = 1 << 20
MODULE = "serve_app.processes.supervision"
STOP_TIMEOUTS_S = {Role.RAY_SUPERVISOR: 30, Role.EDGE: 5}


@dataclass(frozen=True)
class Supervisord:
    """supervisord of one instance.

    Attributes:
        port_base: as on the command line of ``greenwave up``.
    """

    instance: Instance
    port_base: int | None = None

    @property
    def logs(self) -> Path:
        return self.instance.data_dir / "logs"

    def is_running(self) -> bool:
        return bool(self.instance.processes(Role.SUPERVISORD))

    def start(self) -> None:
        """Start it with a supervisor each for Ray and the edge, which adopt what runs.

        Raises:
            InstanceError: it ended at once.
        """
        self.logs.mkdir(parents=True, exist_ok=True, mode=0o700)
        config = self.instance.data_dir / "supervisord.conf"
        config.write_text(self.render(), encoding="utf-8")
        output = self.logs / "supervisor-start.log"
        with output.open("wb") as log:
            supervisord = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "supervisor.supervisord",
                    "-n",
                    "-c",
                    str(config.resolve()),
                ],
                env=os.environ | {INSTANCE_TAG: self.instance.tag, ROLE_TAG: Role.SUPERVISORD},
                cwd=self.instance.data_dir,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        while not self.instance.processes(Role.RAY_SUPERVISOR):
            if supervisord.poll() is not None:
                lines = output.read_text(errors="replace").strip().splitlines()
                raise InstanceError(f"supervisord did not start: {''.join(lines[-1:])}")
            time.sleep(0.05)

    def render(self) -> str:
        """Return the configuration as supervisord reads it."""
        data_dir = self.instance.data_dir.resolve()
        lines = [
            "[supervisord]",
            f"logfile={self.logs.resolve() / 'supervisor.log'}",
            "silent=true",
            f"logfile_maxbytes={LOG_BYTES}",
            "logfile_backups=1",
            f"pidfile={data_dir / 'supervisord.pid'}",
            f"directory={data_dir}",
        ]
        for priority, (role, timeout_s) in enumerate(STOP_TIMEOUTS_S.items(), start=1):
            lines += [
                f"[program:{role}]",
                f"command={shlex.join(supervisor_command(role, self.port_base))}",
                f'environment={ROLE_TAG}="{role}"',
                f"priority={priority}",  # the highest is stopped first: the edge
                "autorestart=true",
                "startsecs=1",
                "startretries=1000000000",  # with a pause that grows by a second each time
                f"stopwaitsecs={timeout_s}",
                f"stdout_logfile={self.logs.resolve() / f'{role}.log'}",
                f"stdout_logfile_maxbytes={LOG_BYTES}",
                "stdout_logfile_backups=1",
                "redirect_stderr=true",
            ]
        return "\n".join(line.replace("%", "%%") for line in lines) + "\n"


def supervisor_command(role: Role, port_base: int | None) -> list[str]:
    """Return the command that runs a supervisor in the foreground."""
    arguments = ["--port-base", str(port_base)] if port_base else []
    return [sys.executable, "-P", "-m", MODULE, str(role), *arguments]


def running_supervisors(instance: Instance, role: Role) -> list[psutil.Process]:
    """Return the supervisors with a role; what they run may have the same tags."""
    found = []
    for process in instance.processes(role):
        with contextlib.suppress(psutil.Error):
            if MODULE in read_command(process):
                found.append(process)
    return found
