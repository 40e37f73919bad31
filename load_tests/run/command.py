"""Locust's command line for a scenario. Locust itself is not imported: it changes the process."""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from pathlib import Path

from load_tests.harness.shipped import ROOT

SCENARIOS = {
    path.stem: path
    for path in sorted((ROOT / "load_tests" / "scenarios").glob("*.py"))
    if path.stem != "__init__"
}
WAIT_FOR_WORKERS_S = 120
STOP_S = 10  # for the journeys that users are on


def described() -> str:
    """Return a line for each scenario: its name, and the first line of what its file says."""
    lines = []
    for name, path in SCENARIOS.items():
        told = ast.get_docstring(ast.parse(path.read_text())) or ""
        lines.append(f"    {name:<12} {told.splitlines()[0]}\n")
    return "".join(lines)


@dataclass(frozen=True)
class Load:
    """What the scenarios of a run have in common; None is what the scenario has by itself.

    Attributes:
        workers: processes on this machine that share the users.
        remote_workers: on other machines, which are waited for.
        connections: of the crowd that overloads the service.
    """

    url: str
    folder: Path
    users: int | None = None
    minutes: float | None = None
    workers: int | None = None
    remote_workers: int | None = None
    connections: int | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What only some scenarios have an option for."""
        return {"LOAD_CONNECTIONS": str(self.connections)} if self.connections else {}

    def command(self, scenario: str, *, page: bool = False) -> list[str]:
        """Return the command that runs a scenario, or that serves Locust's own page for it."""
        command = [sys.executable, "-m", "locust", "-f", str(SCENARIOS[scenario])]
        command += ["--host", self.url, "--stop-timeout", str(STOP_S)]
        if self.users is not None:
            command += ["--users", str(self.users)]
        if self.minutes is not None:
            command += ["--run-time", f"{self.minutes * 60:.0f}s"]
        command += self._distribution()
        return command + (["--web-host", "127.0.0.1"] if page else self._headless(scenario))

    def file(self, scenario: str, suffix: str) -> Path:
        """Return one of the files that a scenario leaves."""
        return self.folder / f"{scenario}{suffix}"

    def _distribution(self) -> list[str]:
        if self.workers is not None:
            return ["--processes", str(self.workers), "--master-bind-host", "127.0.0.1"]
        if self.remote_workers is not None:
            number, wait = str(self.remote_workers), str(WAIT_FOR_WORKERS_S)
            return ["--master", "--expect-workers", number, "--expect-workers-max-wait", wait]
        return []

    def _headless(self, scenario: str) -> list[str]:
        name = str(self.file(scenario, ""))  # Locust adds the endings to all but the last
        reports = ["--csv", name, "--json-file", name, "--html", f"{name}.html"]
        # what failed is judged by the gates
        return ["--headless", "--only-summary", "--exit-code-on-error", "0", *reports]
