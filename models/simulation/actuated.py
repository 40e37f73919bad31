"""SUMO's own actuated control: what many cities run, as a peer to compare with.

Each phase goes on while vehicles follow each other closely over its detectors, from the minimum to
the maximum green (https://sumo.dlr.de/docs/Simulation/Traffic_Lights.html, "Based on Time Gaps").
"""

from __future__ import annotations

import xml.etree.ElementTree as ET

from models.signals.states import MIN_GREEN_S, YELLOW_S, yellow_state
from models.simulation.road_network import JunctionLayout

MAX_GREEN_S = 50  # SUMO's default for the networks that it builds


def actuated_program(junction: JunctionLayout, max_green_s: int = MAX_GREEN_S) -> ET.Element:
    """Return the junction's phases and yellows in turn, as an element of an additional file.

    Gaps, detectors and their places are SUMO's defaults.
    """
    program = ET.Element(
        "tlLogic", id=junction.id, type="actuated", programID="actuated", offset="0"
    )
    for number, phase in enumerate(junction.phases):
        following = junction.phases[(number + 1) % len(junction.phases)]
        ET.SubElement(
            program,
            "phase",
            duration=f"{MIN_GREEN_S}",
            minDur=f"{MIN_GREEN_S}",
            maxDur=f"{max_green_s}",
            state=phase,
        )
        ET.SubElement(
            program, "phase", duration=f"{YELLOW_S}", state=yellow_state(phase, following)
        )
    return program
