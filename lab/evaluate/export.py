"""Files of what the controllers of a comparison show: states by time, and programs for SUMO."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.sax.saxutils import quoteattr

from lab.evaluate.comparison import Comparison, control_of, write_csv
from lab.sim.controllers import run
from lab.sim.programs import Programs
from models.atomic_write import atomic_write


def export(comparison: Comparison, folder: Path) -> None:
    """Run each controller with the first seed; write its states, and the programs made for it.

    Raises:
        InvalidScenarioError: SUMO cannot drive the scenario.
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for controller in comparison.controllers:
        name = controller.replace(" ", "_")
        control = control_of(comparison, controller)
        if isinstance(control, Programs) and control.elements:
            programs = "\n".join(control.elements)
            with atomic_write(folder / f"{name}.add.xml") as file:
                file.write(f"<additional>\n{programs}\n</additional>\n".encode())
        with TemporaryDirectory(prefix="greenwave-") as temporary:
            shown = Path(temporary, "shown.xml")
            to = f'type="SaveTLSSwitchStates" dest="{shown}"'
            events = (
                f"<timedEvent {to} source={quoteattr(each.id)}/>"
                for each in comparison.scenario.network.junctions
            )
            scenario = comparison.scenario_of(controller)
            scenario = replace(scenario, elements=(*scenario.elements, *events))
            run(scenario, comparison.seeds[0], control)
            write_csv(folder / f"{name}.csv", _changes(shown))


def _changes(shown: Path) -> Iterator[tuple[object, ...]]:
    """Yield the states that SUMO wrote, each with its first second."""
    yield "time_s", "junction", "state"
    before: dict[str, str] = {}
    for _, element in ET.iterparse(shown):
        if element.tag == "tlsState":
            junction, state = element.attrib["id"], element.attrib["state"]
            if before.get(junction) != state:
                yield f"{float(element.attrib['time']):g}", junction, state
                before[junction] = state
        element.clear()
