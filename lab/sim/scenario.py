"""A scenario: a network with its SUMO net and traffic, and the rules of its signals."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from lab.net.net import SumoNet, load_net
from lab.net.signal_times import SignalTimes
from models.networks.form import NetworkFile
from models.policy.training_record import Counts as Counts

DECISION_S = 5  # the most that the safety layer expects between two requests by default


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


class Configured(NamedTuple):
    """What a simulation has of a user's SUMO configuration, see :mod:`lab.sim.configuration`.

    Attributes:
        path: of the configuration.
        arguments: for the options that it keeps.
        files: that these name.
        replaced: options that the simulation has instead.
    """

    path: Path
    arguments: tuple[str, ...]
    files: tuple[Path, ...]
    replaced: tuple[str, ...]


@dataclass(frozen=True)
class Scenario:
    """A network and its traffic.

    Attributes:
        network: says which signals decide, and among which phases.
        net: SUMO's network, which has these signals.
        begin_s, end_s: of the simulation, in SUMO's clock.
        warm_up_s: from the begin on; vehicles that are to depart in it do not count.
        drain_s: before the end; vehicles that are to depart in it do not count, and the simulation
            ends in it as soon as no vehicle is left.
        decision_s: seconds from a decision to the next.
        yellow_s, all_red_s: that a change of phase takes, before the new green.
        min_green_s: green that a phase has at least.
        counts: the vehicles of the observation: those that stand, or all on a lane.
        additional: further SUMO files.
        configured: of a SUMO configuration.
        elements: further elements of a SUMO additional file, in XML.
        guarded: whether signals are behind the safety layer, which then decides their times.
        max_walk_wait_s: the layer's longest red of a phase with crossings; None for its longest
            red of every phase.
        detailed: whether a run also measures emissions, waits by approach and the demand by time.
        cyclic: whether phases keep their cyclic order, see :func:`.in_order`.
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
    decision_s: int = DECISION_S
    yellow_s: int = 3
    all_red_s: int = 0
    min_green_s: int = 0
    counts: Counts = "standing"
    additional: tuple[Path, ...] = ()
    configured: Configured | None = None
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
    warm_up_s: int = 0
    drain_s: int = 0

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
        """What SUMO reads, without the files that these include."""
        more = () if self.configured is None else self.configured.files
        return (self.net, *self.demand.files, *self.additional, *more)

    @property
    def counted_s(self) -> tuple[int, int]:
        """The period whose planned departures count."""
        return self.begin_s + self.warm_up_s, self.end_s - self.drain_s

    @property
    def sumo_net(self) -> SumoNet:
        """The net with the programs that SUMO would run, be they of the net or of other files."""
        return load_net(self.net, self.program, self.additional)

    @property
    def times(self) -> SignalTimes:
        return SignalTimes(self.yellow_s, self.all_red_s, self.min_green_s)

    @property
    def n_decisions(self) -> int:
        return -((self.begin_s - self.end_s) // self.decision_s)
