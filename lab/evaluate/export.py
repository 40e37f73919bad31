"""Files of what the controllers of a comparison show: states by time, and programs for SUMO."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lab.evaluate.comparison import Comparison
from lab.net.program import text_of
from lab.processes import RunFolder
from lab.sim.controllers import run
from lab.sim.programs import Programs
from lab.sim.simulator import read_states, shown_states
from lab.tables import write_csv
from models.atomic_write import atomic_write

SHOWN = "greenwave.shown.xml"


def export(comparison: Comparison, folder: Path) -> None:
    """Run each controller with the first seed; write its states, and the programs made for it.

    Raises:
        InvalidScenarioError: SUMO cannot drive the scenario.
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for case in comparison.cases:
        name = case.name.replace(" ", "_")
        control = comparison.control_of(case)
        if isinstance(control, Programs) and control.elements:
            programs = "\n".join(control.elements)
            with atomic_write(folder / f"{name}.add.xml") as file:
                file.write(f"<additional>\n{programs}\n</additional>\n".encode())
        with RunFolder() as temporary:
            outputs = Path(temporary)
            scenario = comparison.scenario_of(case)
            elements = (*scenario.elements, *shown_states(scenario, SHOWN))
            watched = replace(scenario, elements=elements)
            run(watched, comparison.seeds[0], control, outputs=outputs)
            states = read_states(outputs / SHOWN)
            rows = ((text_of(each.time_s), each.signal, each.state) for each in states)
            write_csv(folder / f"{name}.csv", ("time_s", "junction", "state"), rows)
