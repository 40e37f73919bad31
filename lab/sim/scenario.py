"""A scenario: a network with its SUMO net and traffic, and the rules of its signals."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lab.net.signal_times import SignalTimes
from models.networks.file import InvalidNetworkError
from models.networks.form import NetworkFile
from models.policy.training_record import Counts as Counts

SYNONYMS = {  # of SUMO's options
    **{"n": "net-file", "net": "net-file", "r": "route-files", "routes": "route-files"},
    **{"a": "additional-files", "additional": "additional-files", "b": "begin", "e": "end"},
}


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
        return ", ".join(path.name for path in self.files) or "the traffic of additional files"


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
        config: SUMO configuration, which SUMO reads, too. The files, times and outputs here
            replace its own; everything else holds, such as step-length and scale.
        elements: further elements of a SUMO additional file, in XML.
        guarded: whether signals are behind the safety layer, which then decides their times.
        max_walk_wait_s: the layer's longest red of a phase with crossings; None for its longest
            red of every phase.
        detailed: whether a run also measures emissions, waits by approach and the demand by time.
        cyclic: whether phases keep their cyclic order, see :mod:`models.signals.phase_order`.
        bus_weight: vehicles that a bus counts as in observations, queues and rewards.
        program: id of the net's programs that count, where a signal has it; None for its last one.
        detector_reads: the share of its capacity that one detector of each junction reads all the
            time; the seed draws which one. None if none is broken.
        lead: vehicles by which another phase must lead under pressure within 100 m.
        detectors: whether observations and queues are estimated from the detectors of the network
            file; otherwise the vehicles on each lane are known.
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
    config: Path | None = None
    elements: tuple[str, ...] = ()
    guarded: bool = False
    max_walk_wait_s: float | None = None
    detailed: bool = False
    cyclic: bool = False
    program: str | None = None
    bus_weight: float = 1.0
    detector_reads: float | None = None
    detectors: bool = False
    lead: float = 1.0

    def __post_init__(self) -> None:
        if self.end_s <= self.begin_s:
            raise InvalidScenarioError(f"The end, {self.end_s} s, is not after {self.begin_s} s.")
        if self.decision_s < 1 or min(self.yellow_s, self.all_red_s, self.min_green_s) < 0:
            raise InvalidScenarioError("Decisions take a second at least, and no time is negative.")
        if not 0 <= self.bus_weight <= 1000:
            raise InvalidScenarioError("A bus counts as 0 to 1000 vehicles.")
        if not self.guarded and self.yellow_s + self.all_red_s >= self.decision_s:
            raise InvalidScenarioError(
                f"Yellow and all-red, {self.yellow_s} + {self.all_red_s} s, must be shorter than a"
                f" decision, {self.decision_s} s."
            )
        if any(phase.state is None for each in self.network.junctions for phase in each.phases):
            raise InvalidScenarioError("A network file without states of phases cannot be driven.")
        for path in self.files:
            if not path.is_file():
                raise InvalidScenarioError(f"{path} is not there.")

    @property
    def files(self) -> tuple[Path, ...]:
        """What SUMO reads."""
        config = () if self.config is None else (self.config,)
        return (self.net, *self.demand.files, *self.additional, *config)

    @property
    def times(self) -> SignalTimes:
        return SignalTimes(self.yellow_s, self.all_red_s, self.min_green_s)

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


def read_sumocfg(
    path: str | os.PathLike[str], begin_s: int | None = None, end_s: int | None = None
) -> SumoFiles:
    """Read net, routes and times of a configuration.

    Args:
        begin_s, end_s: replace its own.

    Raises:
        InvalidNetworkError: it cannot be read, or has no net or no traffic.
        InvalidScenarioError: it has no end, and none is given.
    """
    try:
        root = ET.parse(path).getroot()
    except OSError as error:
        raise InvalidNetworkError(f"{path}: cannot be read: {error.strerror}") from error
    except ET.ParseError as error:
        raise InvalidNetworkError(f"{path} is not a SUMO configuration: {error}") from error
    values = options_of(root)
    folder = Path(path).parent
    if not values.get("net-file"):
        raise InvalidNetworkError(f"{path} does not say its net-file.")
    if not values.get("route-files") and not values.get("additional-files"):
        raise InvalidNetworkError(f"{path} has neither route-files nor additional-files.")
    try:
        times = {name: seconds_of(values[name]) for name in ("begin", "end") if values.get(name)}
    except ValueError as error:
        raise InvalidNetworkError(f"{path}: {error}") from None
    times |= {name: s for name, s in (("begin", begin_s), ("end", end_s)) if s is not None}
    if times.get("end", -1) < 0:  # SUMO's -1 means that there is no end
        raise InvalidScenarioError(f"{path} does not say its end; add --end.")
    return SumoFiles(
        folder / values["net-file"],
        _paths(folder, values.get("route-files", "")),
        _paths(folder, values.get("additional-files", "")),
        times.get("begin", 0),
        times["end"],
    )


def options_of(configuration: ET.Element) -> dict[str, str]:
    """Return the options of a SUMO configuration under their long names."""
    return {
        SYNONYMS.get(each.tag, each.tag): each.get("value", each.get("v", ""))
        for each in configuration.iter()
    }


def seconds_of(text: str) -> int:
    """Return whole seconds of a time as SUMO reads it: ``3600.0``, ``1:00:00``, ``0:1:00:00``.

    Raises:
        ValueError: it is not a time.
    """
    *larger, seconds = text.strip().split(":")
    try:
        if len(larger) not in (0, 2, 3):
            raise ValueError
        days, hours, minutes = (0, 0, 0, *map(int, larger))[-3:]
        return int(((days * 24 + hours) * 60 + minutes) * 60 + float(seconds))
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a time; write seconds or H:MM:SS") from None


def _paths(folder: Path, names: str) -> tuple[Path, ...]:
    return tuple(folder / name.strip() for name in names.split(",") if name.strip())
