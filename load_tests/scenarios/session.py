"""Runs scenarios with Locust in separate processes, and judges the results."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.table import Table

from load_tests.harness.command_line import save_figure
from load_tests.harness.shipped import ROOT
from load_tests.scenarios.gates import Gates, LoadTestError, Verdict, judge
from load_tests.scenarios.memory import MemoryWatch, draw, judge_growth, write_memory
from load_tests.scenarios.results import Row, read_failures, read_rows
from load_tests.scenarios.scenarios import CONNECTIONS
from load_tests.scenarios.target import LoadTarget

LOCUSTFILE = Path(__file__).with_name("locustfile.py")
WAIT_FOR_WORKERS_S = 120
STOP_S = 10  # for the tasks that users have begun
SAMPLE_S = 5.0
INTERRUPTED_S = STOP_S + 20.0  # for an interrupted Locust, which writes its reports
FAILURES = 5
BUSY = "CPU usage was too high"  # Locust's own words, when it has ended

console = Console(highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class LoadOptions:
    """What the scenarios of a run have in common; None is the default of the scenario.

    Attributes:
        workers: processes on this machine that share the users.
        remote_workers: on other machines, which are waited for.
        connections: of wrk, which overloads the service.
    """

    url: str
    folder: Path
    users: int | None = None
    minutes: float | None = None
    workers: int | None = None
    remote_workers: int | None = None
    connections: int | None = None

    def environment(self, scenario: str) -> dict[str, str]:
        """Return the environment variables of a scenario."""
        connections = {"LOAD_CONNECTIONS": str(self.connections)} if self.connections else {}
        return {"LOAD_SCENARIO": scenario, **connections}

    def command(self, scenario: str, *, page: bool = False) -> list[str]:
        """Return the command that runs a scenario, or that serves Locust's own page for it."""
        command = [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE)]
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
        name = str(self.file(scenario, ""))  # Locust adds the suffixes of all but the last
        reports = ["--csv", name, "--json-file", name, "--html", f"{name}.html"]
        # the gates judge failures
        return ["--headless", "--only-summary", "--exit-code-on-error", "0", *reports]


@dataclass(frozen=True)
class Session:
    """A system, how it is loaded, and the gates of every scenario."""

    target: LoadTarget
    load: LoadOptions
    gates: Gates

    def check(self, scenarios: Sequence[str]) -> None:
        """Check that these scenarios can be judged.

        Raises:
            LoadTestError: a scenario has no gates, or memory cannot be sampled.
        """
        if without := [each for each in scenarios if each not in self.gates]:
            raise LoadTestError(f"There are no gates for {', '.join(without)}.")
        if any(self.gates[each].growth_mb for each in scenarios):
            self.target.check_processes()

    def serve_page(self, scenario: str) -> int:
        """Serve Locust's page until it is interrupted; return its exit code."""
        return self._call(scenario, self.load.command(scenario, page=True))

    def run(self, scenario: str) -> bool:
        """Run a scenario, print the results, and return whether every gate was met.

        Raises:
            LoadTestError: Locust could not run it.
        """
        self.load.folder.mkdir(parents=True, exist_ok=True)
        gates = self.gates[scenario]
        with console.status(f"{scenario} ..."):
            growth = self._run(scenario, gates.growth_mb)
        rows = read_rows(self.load.file(scenario, ".json"))
        connections = self.load.connections or CONNECTIONS
        verdicts = [*judge(gates, rows, connections), *growth]
        _print_rows(scenario, rows)
        failures = read_failures(self.load.file(scenario, "_failures.csv"))
        _print_failures(failures, self.load.file(scenario, ".log").read_text(errors="replace"))
        _print_verdicts(verdicts)
        return all(each.is_met for each in verdicts)

    def _run(self, scenario: str, growth_mb: float | None) -> list[Verdict]:
        if growth_mb is None:
            self._load(scenario)
            return []
        with MemoryWatch(self.target.instance.processes, SAMPLE_S) as watch:
            self._load(scenario)
        write_memory(watch.points, self.load.file(scenario, "_memory.csv"))
        save_figure(draw(watch.points), self.load.file(scenario, "_memory.png"))
        return list(judge_growth(watch.points, growth_mb))

    def _load(self, scenario: str) -> None:
        log = self.load.file(scenario, ".log")
        with log.open("w") as file:
            code = self._call(scenario, self.load.command(scenario), file)
        if code != 0:
            raise LoadTestError(f"{scenario}: Locust ended with code {code}; see {log}.")

    def _call(self, scenario: str, command: Sequence[str], log: IO[str] | None = None) -> int:
        env = os.environ | self.target.environment | self.load.environment(scenario)
        stderr = subprocess.STDOUT if log else None
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=stderr)
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.wait(INTERRUPTED_S)  # the terminal has interrupted it, too
            raise


def _print_rows(scenario: str, rows: Iterable[Row]) -> None:
    table = Table("", "requests", "failed", "p50 ms", "p95 ms", "p99 ms", title=scenario)
    for row in rows:
        times = (row.p50_ms, row.p95_ms, row.p99_ms)
        shown = ("-" if each is None else f"{each:.0f}" for each in times)
        table.add_row(row.route, f"{row.requests}", f"{row.failures}", *shown)
    console.print(table)


def _print_failures(failures: Sequence[str], log: str) -> None:
    """Print what failed, and whether the times are Locust's own rather than the system's."""
    for failure in failures[:FAILURES]:
        console.print(f"failed: {failure}", style="red", markup=False)
    if BUSY in log:
        console.print(
            "Locust itself was short of CPU time, so the times include its own delays: add"
            " --workers.",
            style="yellow",
        )


def _print_verdicts(verdicts: Sequence[Verdict]) -> None:
    """Print every gate; of those for growth, which each process has, the missed and the closest."""
    growth = [each for each in verdicts if each.is_growth]
    closest = max(growth, key=lambda each: each.measured or 0.0, default=None)
    for each in verdicts:
        if not each.is_met:
            console.print(f"missed  {each}", style="red", markup=False)
        elif not each.is_growth or each is closest:
            console.print(f"met     {each}", style="green", markup=False)
