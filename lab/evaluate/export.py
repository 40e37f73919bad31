"""What the controllers of a comparison show, to look at: states by time, and runs for sumo-gui."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import sumo

from lab.evaluate.comparison import Comparison
from lab.net.program import text_of
from lab.processes import RunFolder, run_child
from lab.sim.controllers import run
from lab.sim.programs import Programs, free_id, program_element
from lab.sim.scenario import Scenario
from lab.sim.simulator import Change, read_states, shown_states, sumo_command
from lab.tables import write_csv

STATES, CONFIGURATION = "states.csv", "run.sumocfg"
SHOWN = "greenwave.shown.xml"


def export(comparison: Comparison, folder: Path) -> None:
    """Run each controller with the first seed, and write a folder for it.

    It has the states that the signals show, and a configuration with which SUMO repeats the run: in
    place of a controller, the signals have what it made them show as their program.

    Raises:
        InvalidScenarioError: SUMO cannot drive the scenario.
        OSError: the folder cannot be written.
    """
    seed = comparison.seeds[0]
    for case in comparison.cases:
        place = folder / case.name.replace(" ", "_")
        place.mkdir(parents=True, exist_ok=True)
        scenario, control = comparison.scenario_of(case), comparison.control_of(case)
        with RunFolder() as temporary:
            elements = (*scenario.elements, *shown_states(scenario, SHOWN))
            watched = replace(scenario, elements=elements)
            run(watched, seed, control, outputs=Path(temporary))
            shown = list(read_states(Path(temporary, SHOWN)))
        rows = ((text_of(each.time_s), each.signal, each.state) for each in shown)
        write_csv(place / STATES, ("time_s", "junction", "state"), rows)
        programs = control.elements if isinstance(control, Programs) else _programs(scenario, shown)
        repeated = replace(scenario, detailed=False)
        _, *options = sumo_command(repeated, seed, place.absolute(), tuple(programs))
        binary = str(Path(sumo.SUMO_HOME, "bin", "sumo"))
        run_child([binary, *options, f"--save-configuration={place / CONFIGURATION}"])


def _programs(scenario: Scenario, shown: Sequence[Change]) -> Iterator[str]:
    """Yield a program for each signal that shows these states."""
    name, changes = free_id(scenario.sumo_net), defaultdict[str, list[Change]](list)
    for each in shown:
        changes[each.signal].append(each)
    for signal, own in changes.items():
        ends_s = [*(change.time_s for change in own[1:]), scenario.end_s + 1]
        phases = (
            {"duration": text_of(end_s - change.time_s), "state": change.state}
            for change, end_s in zip(own, ends_s, strict=True)
        )
        yield program_element(signal, "static", f"{scenario.begin_s}", phases, name)
