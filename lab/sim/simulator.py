"""SUMO: its command, its errors, and what its signals have shown."""

from __future__ import annotations

import faulthandler
import os
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

import libsumo

from lab.sim.details import OPTIONS
from lab.sim.scenario import InvalidScenarioError, Scenario

SUMO_ERRORS = (libsumo.TraCIException, libsumo.FatalTraCIError)
TRIPS, STATISTICS, ROUTES = "greenwave.trips.xml", "greenwave.statistics.xml", "greenwave.xml"
SAID = "greenwave.said.txt"
START_S = 300.0  # that SUMO may take to read all files
ENDED = f"A worker has ended: SUMO failed, was ended, or did not start within {START_S:.0f} s."
CHUNK_S = 60
UP, DEEPEST = "../", 64  # from any folder to the root of the file system
WAITING_MEMORY_S = 86_400  # of vehicles' accumulated waiting; SUMO's default is 100 s


class Change(NamedTuple):
    """A state that a signal shows from a second on."""

    time_s: float
    signal: str
    state: str


def start(
    scenario: Scenario,
    seed: int,
    folder: Path,
    programs: Sequence[str] = (),
    driven: Path | None = None,
) -> None:
    """Start SUMO in this process, which ends if that takes longer than START_S.

    SUMO then holds the interpreter, so only the watchdog in C can act.

    Raises:
        libsumo.TraCIException: SUMO refuses a file; with the reason, which it writes to stderr.
    """
    command, said = sumo_command(scenario, seed, folder, programs, driven), folder / SAID
    terminal = os.dup(2)
    with said.open("wb") as file:
        os.dup2(file.fileno(), 2)
    faulthandler.dump_traceback_later(START_S, exit=True, file=terminal)
    try:
        libsumo.start(command)
    except SUMO_ERRORS as error:
        reason = _reason(said.read_text(encoding="utf-8", errors="replace"), str(error))
        raise libsumo.TraCIException(reason) from None
    finally:
        faulthandler.cancel_dump_traceback_later()
        os.dup2(terminal, 2)
        os.close(terminal)


def drive(scenario: Scenario, seed: int, folder: Path, driven: Path | None = None) -> None:
    """Let SUMO drive a scenario to its end; the caller closes it."""
    start(scenario, seed, folder, driven=driven)
    for second in range(scenario.begin_s, scenario.end_s, CHUNK_S):  # so that Ctrl-C is seen
        libsumo.simulationStep(min(second + CHUNK_S, scenario.end_s))


def sumo_command(
    scenario: Scenario,
    seed: int,
    folder: Path,
    programs: Sequence[str] = (),
    driven: Path | None = None,
) -> list[str]:
    """Return SUMO's command; it writes TRIPS, with every vehicle, and STATISTICS into the folder.

    Teleporting is off: it would take vehicles out of a jam, and so flatter the worse controller.
    Outputs that files of the scenario ask for go into the folder, too, whatever their own is.

    Args:
        driven: file for the routes of vehicles that departed.
    """
    additional = folder / "additional.xml"
    elements = "".join((*scenario.elements, *programs))
    additional.write_text(f"<additional>{elements}</additional>", encoding="utf-8")
    routes = scenario.demand.route_files(seed, folder)
    outputs = {"tripinfo-output": folder / TRIPS, "statistic-output": folder / STATISTICS}
    if driven is not None or scenario.detailed:
        outputs["vehroute-output"] = driven or folder / ROUTES
    return [
        "sumo",
        *(scenario.configured.arguments if scenario.configured else ()),
        f"--net-file={scenario.net}",
        *([f"--route-files={','.join(map(str, routes))}"] if routes else []),
        f"--additional-files={','.join(map(str, (*scenario.additional, additional)))}",
        f"--seed={seed}",
        f"--begin={scenario.begin_s}",
        f"--end={scenario.end_s}",
        "--time-to-teleport=-1",
        f"--waiting-time-memory={WAITING_MEMORY_S}",
        *(f"--{name}={path}" for name, path in outputs.items()),
        f"--output-prefix={UP * DEEPEST}{str(folder.absolute())[1:]}/",
        "--tripinfo-output.write-unfinished",
        "--tripinfo-output.write-undeparted",
        "--vehroute-output.write-unfinished",
        *(OPTIONS if scenario.detailed else ()),
        "--no-step-log",
        "--no-warnings",
    ]


def _reason(said: str, otherwise: str) -> str:
    """Return SUMO's first error, which may go on in lines that begin with a space."""
    first, *others = [*filter(str.strip, said.splitlines())] or [otherwise]
    return " ".join([first, *map(str.strip, takewhile(lambda line: line[0] == " ", others))])


@contextmanager
def sumo_errors(scenario: Scenario, programs: Sequence[str] | None = ()) -> Iterator[None]:
    """Turn SUMO's errors into a sentence, and free the simulator then.

    Args:
        programs: that were made for the run, and may be what SUMO refuses.

    Raises:
        InvalidScenarioError: such as for a route that leaves the network.
    """
    try:
        yield
    except SUMO_ERRORS as error:
        libsumo.close()
        reason = " ".join(str(error).split()) or "no reason"
        driven = f"{scenario.demand} on {scenario.net.name}"
        if programs and "program 'greenwave" in reason:
            driven = f"the programs made for {scenario.net.name}"
        raise InvalidScenarioError(f"SUMO cannot drive {driven}: {reason}") from error


def shown_states(scenario: Scenario, name: str) -> Iterator[str]:
    """Yield the elements that let SUMO write what the signals show, for :func:`read_states`.

    Args:
        name: of the file, in the folder of the run.
    """
    for junction in scenario.network.junctions:
        source, to = quoteattr(junction.id), quoteattr(name)
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
