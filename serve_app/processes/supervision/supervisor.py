"""The supervisor of one instance, as other programs start and find it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import psutil

from serve_app.errors import ROOT, InstanceError
from serve_app.processes.instance import Instance
from serve_app.processes.process_tags import CODE_TAG, INSTANCE_TAG, ROLE_TAG, Role, read_command

MODULE = "serve_app.processes.supervision"
GUARD, RUN = "guard", "run"


@dataclass(frozen=True)
class Supervisor:
    """The supervisor and its guard.

    Attributes:
        port_base: as on the command line of ``greenwave up``.
    """

    instance: Instance
    port_base: int | None = None

    @property
    def logs(self) -> Path:
        return self.instance.data_dir / "logs"

    def is_guarded(self) -> bool:
        """Return whether a supervisor that dies is restarted."""
        return bool(self.running(GUARD))

    def start(self) -> None:
        """Start the guard, and with it the supervisor, which adopts what runs.

        Raises:
            InstanceError: it ended at once, or another user can change its folders.
        """
        self.instance.make_folders()  # before anything in them is believed
        self.logs.mkdir(parents=True, exist_ok=True, mode=0o700)
        code = f"{ROOT} {metadata.version('greenwave')}"
        tags = {INSTANCE_TAG: self.instance.tag, ROLE_TAG: Role.SUPERVISOR, CODE_TAG: code}
        output = self.logs / "supervisor-start.log"
        with output.open("wb") as log:
            guard = subprocess.Popen(
                self.command(GUARD),
                env=os.environ | tags,
                cwd=self.instance.data_dir,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        while not self.running(RUN):
            if guard.poll() is not None:
                lines = output.read_text(errors="replace").strip().splitlines()
                raise InstanceError(f"The supervisor did not start: {''.join(lines[-1:])}")
            time.sleep(0.05)

    def command(self, part: str) -> list[str]:
        """Return the command that runs a part in the foreground."""
        arguments = ["--port-base", str(self.port_base)] if self.port_base else []
        return [sys.executable, "-P", "-m", f"{MODULE}.{part}", *arguments]

    def running(self, part: str) -> list[psutil.Process]:
        """Return the processes of a part, but not this one."""
        supervising = self.instance.processes(Role.SUPERVISOR)
        return [each for each in supervising if f"{MODULE}.{part}" in read_command(each)]
