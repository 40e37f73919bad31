"""One run of SUMO in this process: its command line, and its errors as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import libsumo

from models.simulation.city.scenario import CityScenario, InvalidScenarioError

SUMO_ERRORS = (libsumo.TraCIException, libsumo.FatalTraCIError)


def command_of(
    scenario: CityScenario, seed: int, trip_file: Path, additional: Sequence[Path] = ()
) -> list[str]:
    """Return SUMO's command; nobody is teleported out of a jam, and nobody is forgotten."""
    command = [
        "sumo",
        f"--net-file={scenario.net}",
        f"--route-files={','.join(map(str, scenario.routes))}",
        f"--seed={seed}",
        f"--begin={scenario.begin_s}",
        f"--end={scenario.end_s}",
        "--time-to-teleport=-1",
        f"--tripinfo-output={trip_file}",
        "--tripinfo-output.write-unfinished",
        "--tripinfo-output.write-undeparted",
        "--no-step-log",
        "--no-warnings",
    ]
    if files := [*scenario.additional, *additional]:
        command.append(f"--additional-files={','.join(map(str, files))}")
    return command


@contextmanager
def telling(scenario: CityScenario) -> Iterator[None]:
    """Turn SUMO's errors into a sentence, and free the simulator then.

    Raises:
        InvalidScenarioError: such as of a route that leaves the network.
    """
    try:
        yield
    except SUMO_ERRORS as error:
        libsumo.close()
        files = ", ".join(str(each.name) for each in scenario.routes)
        said = " ".join(str(error).split()) or "no reason"
        raise InvalidScenarioError(
            f"SUMO cannot drive {files} on {scenario.net.name}: {said}"
        ) from error
