"""What figures depend on, as far as the machine tells it."""

from __future__ import annotations

import platform
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime

import psutil

from load_tests.harness.shipped import ROOT


@dataclass(frozen=True)
class Machine:
    """Where and when a run was made.

    Attributes:
        load_before: processes that ran or wanted to in the minute before, as the kernel counts.
    """

    when: str
    revision: str
    cores: int
    memory_gb: int
    system: str
    python: str
    load_before: float

    def __str__(self) -> str:
        return (
            f"Measured {self.when} at revision {self.revision} on {self.cores} cores and"
            f" {self.memory_gb} GB ({self.system}, Python {self.python}), the load generator on the"
            f" same cores; load average before it: {self.load_before:.1f}"
        )


def look() -> Machine:
    """Ask the machine."""
    git = ["git", "describe", "--always", "--dirty"]
    revision = subprocess.run(git, cwd=ROOT, capture_output=True, text=True)
    return Machine(
        when=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        revision=revision.stdout.strip() or "unknown",
        cores=psutil.cpu_count() or 0,
        memory_gb=round(psutil.virtual_memory().total / 1e9),
        system=platform.platform(terse=True),
        python=platform.python_version(),
        load_before=psutil.getloadavg()[0],
    )
