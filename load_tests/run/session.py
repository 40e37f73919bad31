"""Runs scenarios with Locust, in processes of its own, and judges what it has measured."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from load_tests.harness.shipped import ROOT
from load_tests.run.command import STOP_S, Load
from load_tests.run.errors import LoadTestError
from load_tests.run.gates import Gates, Verdict, judge
from load_tests.run.growth import judge_growth
from load_tests.run.memory import MemoryWatch, write_memory
from load_tests.run.memory_plot import draw, save
from load_tests.run.report import console, print_findings, print_rows, print_verdicts
from load_tests.run.results import read_failures, read_rows
from load_tests.run.target import LoadTarget

SAMPLE_S = 5.0
PATIENCE_S = STOP_S + 20.0  # with a Locust that was interrupted: it writes its reports


@dataclass(frozen=True)
class Session:
    """A system, how it is loaded, and the gates of every scenario."""

    target: LoadTarget
    load: Load
    gates: Gates

    def check(self, scenarios: Sequence[str]) -> None:
        """Return if these scenarios can be judged.

        Raises:
            LoadTestError: one has no gates, or the memory that is to be sampled is out of reach.
        """
        if without := [each for each in scenarios if each not in self.gates]:
            raise LoadTestError(f"There are no gates for {', '.join(without)}.")
        if any(self.gates[each].growth_mb for each in scenarios):
            self.target.check_processes()

    def serve_page(self, scenario: str) -> int:
        """Serve Locust's page until it is interrupted; return its exit code."""
        return self._call(self.load.command(scenario, page=True))

    def run(self, scenario: str) -> bool:
        """Run a scenario, tell of it, and return whether every gate was met.

        Raises:
            LoadTestError: Locust could not run it.
        """
        self.load.folder.mkdir(parents=True, exist_ok=True)
        gates = self.gates[scenario]
        with console.status(f"{scenario} ..."):
            grown = self._run(scenario, gates.growth_mb)
        rows = read_rows(self.load.file(scenario, ".json"))
        verdicts = [*judge(gates, rows), *grown]
        print_rows(scenario, rows)
        failures = read_failures(self.load.file(scenario, "_failures.csv"))
        print_findings(failures, self.load.file(scenario, ".log").read_text(errors="replace"))
        print_verdicts(verdicts)
        return all(each.is_met for each in verdicts)

    def _run(self, scenario: str, growth_mb: float | None) -> list[Verdict]:
        if growth_mb is None:
            self._load(scenario)
            return []
        with MemoryWatch(self.target.instance.processes, SAMPLE_S) as watch:
            self._load(scenario)
        write_memory(watch.points, self.load.file(scenario, "_memory.csv"))
        save(draw(watch.points), self.load.file(scenario, "_memory.png"))
        return list(judge_growth(watch.points, growth_mb))

    def _load(self, scenario: str) -> None:
        log = self.load.file(scenario, ".log")
        with log.open("w") as told:
            code = self._call(self.load.command(scenario), told)
        if code != 0:
            raise LoadTestError(f"{scenario}: Locust ended with {code}; {log} says why.")

    def _call(self, command: Sequence[str], log: IO[str] | None = None) -> int:
        env = os.environ | self.target.environment | self.load.environment
        stderr = subprocess.STDOUT if log else None
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=stderr)
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.wait(PATIENCE_S)  # the terminal has interrupted it, too
            raise
