"""Starts the supervisor of the keepers: supervisord, with no socket that anyone could reach."""

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

from serve_app.processes.instance import Instance, InstanceError
from serve_app.processes.process_tags import KEPT_BY, MARK, PART, Part, read_command, read_mark

LOG_BYTES = 1 << 20
MODULE = "serve_app.processes.supervision"
KEEPERS = {Part.NODE: 30, Part.EDGE: 5}  # seconds that each may take to stop


@dataclass(frozen=True)
class Supervisor:
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
        return bool(self.instance.processes(Part.SUPERVISOR))

    def is_foreign(self) -> bool:
        """Return whether the keepers that run are kept by another, such as systemd."""
        keepers = [each for part in KEEPERS for each in living_keepers(self.instance, part)]
        return any(read_mark(keeper, KEPT_BY) for keeper in keepers)

    def start(self) -> None:
        """Start it, with a keeper each for Ray and the edge; they take over what runs.

        Raises:
            InstanceError: it ended at once.
        """
        self.logs.mkdir(parents=True, exist_ok=True, mode=0o700)
        config = self.instance.data_dir / "supervisord.conf"
        config.write_text(self.render(), encoding="utf-8")
        first_words = self.logs / "supervisor-start.log"
        with first_words.open("wb") as log:
            supervisor = subprocess.Popen(
                [sys.executable, "-m", "supervisor.supervisord", "-n", "-c", str(config)],
                env=os.environ | {MARK: self.instance.mark, PART: Part.SUPERVISOR},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        while not self.instance.processes(Part.NODE):
            if supervisor.poll() is not None:
                words = first_words.read_text(errors="replace").strip().splitlines()
                raise InstanceError(f"The supervisor did not start: {''.join(words[-1:])}")
            time.sleep(0.05)

    def render(self) -> str:
        """Return the configuration as supervisord reads it."""
        data_dir = self.instance.data_dir.resolve()
        sections = [
            "[supervisord]",
            f"logfile={self.logs.resolve() / 'supervisor.log'}",
            "silent=true",
            f"logfile_maxbytes={LOG_BYTES}",
            "logfile_backups=1",
            f"pidfile={data_dir / 'supervisord.pid'}",
            f"directory={data_dir}",
        ]
        for priority, (part, patience_s) in enumerate(KEEPERS.items(), start=1):
            sections += [
                f"[program:{part}]",
                f"command={shlex.join(keeper_command(part, self.port_base))}",
                f'environment={PART}="{part}"',
                f"priority={priority}",  # the highest is stopped first: the edge
                "autorestart=true",
                "startsecs=1",
                "startretries=1000000000",  # with a pause that grows by a second each time
                f"stopwaitsecs={patience_s}",
                f"stdout_logfile={self.logs.resolve() / f'{part}.log'}",
                f"stdout_logfile_maxbytes={LOG_BYTES}",
                "stdout_logfile_backups=1",
                "redirect_stderr=true",
            ]
        return "\n".join(line.replace("%", "%%") for line in sections) + "\n"


def keeper_command(part: Part, port_base: int | None) -> list[str]:
    """Return the command that runs a keeper in the foreground."""
    arguments = ["--port-base", str(port_base)] if port_base else []
    return [sys.executable, "-m", MODULE, str(part), *arguments]


def living_keepers(instance: Instance, part: Part) -> list[psutil.Process]:
    """Return the keepers of a part; what bears its mark besides is kept: the edge's HAProxy."""
    found = []
    for process in instance.processes(part):
        with contextlib.suppress(psutil.Error):
            if MODULE in read_command(process):
                found.append(process)
    return found
