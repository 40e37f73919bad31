"""SUMO: its command, its errors, and what its signals have shown."""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

import libsumo
import sumo

from lab.sim.details import OPTIONS
from lab.sim.scenario import InvalidScenarioError, Scenario, options_of

SUMO_ERRORS = (libsumo.TraCIException, libsumo.FatalTraCIError)
TRIPS, STATISTICS, ROUTES = "trips.xml", "statistics.xml", "driven.xml"
WAITING_MEMORY_S = 86_400  # of vehicles' accumulated waiting; SUMO's default is 100 s


class Change(NamedTuple):
    """A state that a signal shows from a second on."""

    time_s: float
    signal: str
    state: str


def sumo_command(
    scenario: Scenario,
    seed: int,
    folder: Path,
    programs: Sequence[str] = (),
    driven: Path | None = None,
) -> list[str]:
    """Return SUMO's command; it writes TRIPS, with every vehicle, and STATISTICS into the folder.

    Teleporting is off: it would take vehicles out of a jam, and so flatter the worse controller.
    Outputs that a configuration asks for go into the folder, too, as runs in parallel share it.

    Args:
        driven: file for the routes of vehicles that departed.
    """
    additional = folder / "additional.xml"
    elements = "".join((*scenario.elements, *programs))
    additional.write_text(f"<additional>{elements}</additional>", encoding="utf-8")
    routes = scenario.demand.route_files(seed, folder)
    outputs = _configured_outputs(scenario.config, folder)
    outputs |= {"tripinfo-output": folder / TRIPS, "statistic-output": folder / STATISTICS}
    if driven is not None or scenario.detailed:
        outputs["vehroute-output"] = driven or folder / ROUTES
    return [
        "sumo",
        *([] if scenario.config is None else [f"--configuration-file={scenario.config}"]),
        f"--net-file={scenario.net}",
        *([f"--route-files={','.join(map(str, routes))}"] if routes else []),
        f"--additional-files={','.join(map(str, (*scenario.additional, additional)))}",
        f"--seed={seed}",
        f"--begin={scenario.begin_s}",
        f"--end={scenario.end_s}",
        "--time-to-teleport=-1",
        f"--waiting-time-memory={WAITING_MEMORY_S}",
        *(f"--{name}={path}" for name, path in outputs.items()),
        "--output-prefix=",
        "--tripinfo-output.write-unfinished",
        "--tripinfo-output.write-undeparted",
        "--vehroute-output.write-unfinished",
        *(OPTIONS if scenario.detailed else ()),
        "--no-step-log",
        "--no-warnings",
    ]


def run_alone(
    scenario: Scenario,
    seed: int,
    folder: Path,
    programs: Sequence[str] = (),
    program: str = "sumo",
    *options: str,
) -> None:
    """Let SUMO's own program, or sumo-gui, drive a scenario with the programs of its signals.

    Raises:
        InvalidScenarioError: such as for a route that leaves the network, or without a display.
    """
    _, *command = sumo_command(scenario, seed, folder, programs)
    executable = str(Path(sumo.SUMO_HOME, "bin", program))
    ran = subprocess.run([executable, *command, *options], capture_output=True, text=True)
    if ran.returncode:
        said = next((line for line in ran.stderr.splitlines() if line.strip()), "no reason")
        if program != "sumo":
            raise InvalidScenarioError(f"{program} has failed: {said}")
        raise _cannot_drive(scenario, said)


def _cannot_drive(scenario: Scenario, reason: str) -> InvalidScenarioError:
    return InvalidScenarioError(
        f"SUMO cannot drive {scenario.demand} on {scenario.net.name}: {reason}"
    )


def _configured_outputs(config: Path | None, folder: Path) -> dict[str, Path]:
    options = {} if config is None else options_of(ET.parse(config).getroot())
    return {
        name: folder / f"{name}.xml"
        for name, value in options.items()
        if value and (name.endswith("-output") or name == "netstate-dump")
    }


@contextmanager
def sumo_errors(scenario: Scenario) -> Iterator[None]:
    """Turn SUMO's errors into a sentence, and free the simulator then.

    Raises:
        InvalidScenarioError: such as for a route that leaves the network.
    """
    try:
        yield
    except SUMO_ERRORS as error:
        libsumo.close()
        reason = " ".join(str(error).split()) or "no reason"
        raise _cannot_drive(scenario, reason) from error


def shown_states(scenario: Scenario, path: Path) -> Iterator[str]:
    """Yield the elements that let SUMO write what the signals show, for :func:`read_states`."""
    for junction in scenario.network.junctions:
        source, to = quoteattr(junction.id), quoteattr(str(path))
        yield f'<timedEvent type="SaveTLSSwitchStates" source={source} dest={to}/>'


def read_states(path: Path) -> Iterator[Change]:
    """Yield the states that SUMO wrote, each with its first second."""
    before: dict[str, str] = {}
    for _, element in ET.iterparse(path):
        if element.tag == "tlsState":
            junction, state = element.attrib["id"], element.attrib["state"]
            if before.get(junction) != state:
                yield Change(float(element.attrib["time"]), junction, state)
                before[junction] = state
        element.clear()
