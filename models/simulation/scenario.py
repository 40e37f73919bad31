"""A scenario: a network with its SUMO net and traffic, and the rules of its signals."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from models.networks.file import InvalidNetworkError
from models.networks.form import NetworkFile

Counts = Literal["standing", "all"]


class InvalidScenarioError(ValueError):
    """SUMO cannot simulate the scenario; one sentence."""


class Demand(Protocol):
    """The traffic of a scenario; ``str()`` names it for people.

    Attributes:
        files: what it is read from.
    """

    @property
    def files(self) -> tuple[Path, ...]: ...

    def route_files(self, seed: int, folder: Path) -> tuple[Path, ...]:
        """Return SUMO's route files for a seed.

        Args:
            folder: where files may be written; it outlives the simulation.
        """

    def expected(self, second: int) -> tuple[float, ...]:
        """Return what is known of the traffic of a time beforehand, the same number of values."""


@dataclass(frozen=True)
class RouteFiles:
    """The same vehicles under every seed; the seed draws how they drive."""

    files: tuple[Path, ...]

    def route_files(self, seed: int, folder: Path) -> tuple[Path, ...]:
        return self.files

    def expected(self, second: int) -> tuple[float, ...]:
        return ()

    def __str__(self) -> str:
        return ", ".join(path.name for path in self.files)


@dataclass(frozen=True)
class Scenario:
    """A network and its traffic.

    Attributes:
        network: says which signals decide, and among which phases.
        net: SUMO's network, which has these signals.
        begin_s, end_s: of the simulation, in SUMO's clock.
        decision_s: seconds from a decision to the next.
        yellow_s, all_red_s: that a change of phase takes, before the new green.
        min_green_s: green that a phase has at least.
        counts: the vehicles of the observation: those that stand, or all on a lane.
        additional: further SUMO files.
        elements: further elements of a SUMO additional file, in XML.
        guarded: whether signals are behind the safety layer, which then decides their times.
        detector_reads: the share of its capacity that one detector of each junction reads all the
            time; the seed draws which one. None if none is broken.
    """

    network: NetworkFile
    net: Path
    demand: Demand
    begin_s: int
    end_s: int
    decision_s: int = 10
    yellow_s: int = 3
    all_red_s: int = 0
    min_green_s: int = 0
    counts: Counts = "standing"
    additional: tuple[Path, ...] = ()
    elements: tuple[str, ...] = ()
    guarded: bool = False
    detector_reads: float | None = None

    def __post_init__(self) -> None:
        if self.end_s <= self.begin_s:
            raise InvalidScenarioError(f"The end, {self.end_s} s, is not after {self.begin_s} s.")
        if self.decision_s < 1 or min(self.yellow_s, self.all_red_s, self.min_green_s) < 0:
            raise InvalidScenarioError("Decisions take a second at least, and no time is negative.")
        if self.yellow_s + self.all_red_s >= self.decision_s:
            raise InvalidScenarioError("Yellow and all-red must be shorter than a decision.")
        if any(phase.state is None for each in self.network.junctions for phase in each.phases):
            raise InvalidScenarioError("A network file without states of phases cannot be driven.")
        for path in (self.net, *self.demand.files, *self.additional):
            if not path.is_file():
                raise InvalidScenarioError(f"{path} is not there.")

    @property
    def n_decisions(self) -> int:
        return -((self.begin_s - self.end_s) // self.decision_s)


@dataclass(frozen=True)
class SumoFiles:
    """What a ``.sumocfg`` names; paths are those of the machine."""

    net: Path
    routes: tuple[Path, ...]
    additional: tuple[Path, ...]
    begin_s: int
    end_s: int


def read_sumocfg(path: str | os.PathLike[str]) -> SumoFiles:
    """Read net, routes and times of a configuration.

    Raises:
        InvalidNetworkError: it cannot be read, or lacks one of them.
    """
    try:
        root = ET.parse(path).getroot()
    except OSError as error:
        raise InvalidNetworkError(f"{path}: cannot be read: {error.strerror}") from error
    except ET.ParseError as error:
        raise InvalidNetworkError(f"{path} is no SUMO configuration: {error}") from error
    values = {each.tag: each.get("value", "") for each in root.iter()}
    folder = Path(path).parent
    for needed in ("net-file", "route-files", "end"):
        if not values.get(needed):
            raise InvalidNetworkError(f"{path} does not say its {needed}.")
    return SumoFiles(
        folder / values["net-file"],
        _paths(folder, values["route-files"]),
        _paths(folder, values.get("additional-files", "")),
        int(float(values.get("begin") or 0)),
        int(float(values["end"])),
    )


def _paths(folder: Path, names: str) -> tuple[Path, ...]:
    return tuple(folder / name.strip() for name in names.split(",") if name.strip())
