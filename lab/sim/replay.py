"""A run of a controller again, in SUMO alone: what its signals showed is a program for each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from lab.net.program import text_of
from lab.processes import RunFolder
from lab.sim.controllers import Control, open_run, run
from lab.sim.metrics import Metrics, read_trip_metrics
from lab.sim.programs import Programs, free_id, program_element
from lab.sim.scenario import Scenario
from lab.sim.simulator import TRIPS, Change, show


def record(scenario: Scenario, seed: int, control: Control) -> Programs:
    """Run a controller once, and return what its signals showed.

    Raises:
        InvalidScenarioError: SUMO refuses the scenario.
    """
    if isinstance(control, Programs):
        return control
    with open_run(scenario, seed, control) as (environment, controller, observations):
        while not environment.is_over:
            observations = environment.step(controller.act(observations))
        changes = sorted(environment.changes, key=lambda change: change.signal)
        name, begin = free_id(scenario.sumo_net), f"{scenario.begin_s}"
        return Programs(
            tuple(
                program_element(signal, "static", begin, _phases(list(own), scenario), name)
                for signal, own in groupby(changes, key=lambda change: change.signal)
            )
        )


def _phases(changes: Sequence[Change], scenario: Scenario) -> list[dict[str, str]]:
    ends_s = [*(change.time_s for change in changes[1:]), scenario.end_s + 1]
    return [
        {"duration": text_of(end_s - change.time_s), "state": change.state}
        for change, end_s in zip(changes, ends_s, strict=True)
    ]


def replay(scenario: Scenario, seed: int, programs: Programs, gui: bool = True) -> Metrics:
    """Show a run in sumo-gui until its window is closed, or simulate it without a window.

    Raises:
        InvalidScenarioError: SUMO refuses the scenario, or cannot open a window.
    """
    if not gui:
        return run(scenario, seed, programs)
    with RunFolder() as folder:
        show(scenario, seed, Path(folder), programs.elements)
        return read_trip_metrics(Path(folder, TRIPS))
