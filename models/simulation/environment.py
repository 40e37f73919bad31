"""The environment: all five junctions at once, simulated by SUMO in this process.

``reset`` and ``step`` speak in dicts by junction id, as a parallel multi-agent environment does.
SUMO's library keeps one simulation per process, so only one environment can be open at a time.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

import libsumo
import numpy as np
from numpy.typing import NDArray

from models.networks.shipped import JUNCTIONS, NET_FILE
from models.simulation.actuated import actuated_program
from models.simulation.breakdown import Breakdown, breakdown_vehicle
from models.simulation.demand import HOUR_S, WEEKDAY, DayProfile, make_demand, write_routes
from models.simulation.metrics import Metrics, read_trip_metrics
from models.simulation.observation import Observation, encode_observation
from models.simulation.road_network import RoadNetwork, read_network
from models.simulation.safe_signals import SafeSignal, make_safe_signal
from models.simulation.signals import Signal

DECISION_S = 5

Observations = dict[str, Observation]


@dataclass(frozen=True)
class Scenario:
    """A stretch of a day and the demand in it; the seed of a reset draws the vehicles.

    Attributes:
        begin_s: start in seconds of the day; the network is empty then.
        duration_s: length, a multiple of the decision interval.
        demand_scale: factor on all flows; 1 brings rush hours close to the capacity.
        profile: course of the demand over the day.
        strange: draws turning shares and entries that are none of the usual ones; None for these.
        breakdowns: vehicles that stop and close a lane, on top of the demand.
        safe: signals are behind the safety layer; it decides at each step, asked or not.
        actuated: SUMO's actuated control decides; actions are ignored.
        sumo_elements: further elements of SUMO's additional file, such as outputs, in XML.
    """

    begin_s: int = 7 * HOUR_S + HOUR_S // 2
    duration_s: int = HOUR_S
    demand_scale: float = 1.0
    profile: DayProfile = WEEKDAY
    strange: int | None = None
    breakdowns: tuple[Breakdown, ...] = ()
    safe: bool = False
    actuated: bool = False
    sumo_elements: tuple[str, ...] = ()

    @property
    def end_s(self) -> int:
        return self.begin_s + self.duration_s

    @property
    def n_decisions(self) -> int:
        return self.duration_s // DECISION_S


class TrafficEnvironment:
    """Five signals that decide every five seconds; a context manager that frees the simulator."""

    def __init__(self, scenario: Scenario, network: RoadNetwork | None = None) -> None:
        self.scenario = scenario
        self.network = network or read_network()
        self._capacities = {
            junction_id: [lane.capacity for lane in self.network.junctions[junction_id].lanes]
            for junction_id in JUNCTIONS
        }
        self._folder: TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def trip_file(self) -> Path:
        """SUMO's tripinfo file, complete once the environment is closed."""
        if self._folder is None:
            raise RuntimeError("reset the environment first")
        return Path(self._folder.name, "trips.xml")

    def reset(self, seed: int) -> Observations:
        """Start the scenario anew; the seed draws the vehicles and their drivers."""
        self.close()
        self._folder = TemporaryDirectory(prefix="greenwave-")
        scenario = self.scenario
        routes = Path(self._folder.name, "demand.rou.xml")
        trips = make_demand(
            self.network,
            seed,
            scenario.begin_s,
            scenario.end_s,
            scenario.demand_scale,
            scenario.profile,
            scenario.strange,
        )
        write_routes(trips, routes)
        additional = Path(self._folder.name, "additional.xml")
        additional.write_text(self._additional_file(), encoding="utf-8")
        # Teleporting would remove vehicles from a jam and so flatter the worse controller.
        libsumo.start(
            [
                "sumo",
                f"--net-file={NET_FILE}",
                f"--route-files={routes}",
                f"--additional-files={additional}",
                f"--seed={seed}",
                f"--begin={scenario.begin_s}",
                "--time-to-teleport=-1",
                f"--tripinfo-output={self.trip_file}",
                "--tripinfo-output.write-unfinished",
                "--tripinfo-output.write-undeparted",
                "--no-step-log",
                "--no-warnings",
            ]
        )
        self.time_s = scenario.begin_s
        self._states = dict.fromkeys(JUNCTIONS, "")
        self._signals: dict[str, Signal | SafeSignal] = {
            junction_id: make_safe_signal(junction_id)
            if scenario.safe
            else Signal(self.network.junctions[junction_id].phases)
            for junction_id in JUNCTIONS
        }
        self._queue_sums = dict.fromkeys(JUNCTIONS, 0.0)
        self._observe_halted()
        return self._observations()

    def step(self, actions: Mapping[str, int]) -> Observations:
        """Request a green phase per junction and let five seconds pass.

        A junction without an entry keeps its phase; so does one in yellow or minimum green.

        Raises:
            ValueError: an action that the junction does not have.
            KeyError: an unknown junction.
        """
        kept = {junction_id: signal.phase for junction_id, signal in self._signals.items()}
        for junction_id, action in (kept | dict(actions)).items():
            self._signals[junction_id].request(action)
        for _ in range(DECISION_S):
            if not self.scenario.actuated:
                self._show_signals()
            libsumo.simulationStep()
        self.time_s += DECISION_S
        self._observe_halted()
        for junction_id, halted in self.halted.items():
            self._queue_sums[junction_id] += float(halted.sum())
        return self._observations()

    @property
    def done(self) -> bool:
        """True once the scenario's time is over."""
        return self.time_s >= self.scenario.end_s

    def metrics(self) -> Metrics:
        """Close the simulation, at its end or before, and count what happened until now."""
        n_decisions = (self.time_s - self.scenario.begin_s) // DECISION_S
        queues = {
            junction_id: total / max(1, n_decisions)
            for junction_id, total in self._queue_sums.items()
        }
        libsumo.close()
        return read_trip_metrics(self.trip_file, queues)

    def close(self) -> None:
        """Free the simulator and its files; closing twice is harmless."""
        if self._folder is not None:
            libsumo.close()
            self._folder.cleanup()
            self._folder = None

    def _additional_file(self) -> str:
        scenario = self.scenario
        root = ET.Element("additional")
        root.extend(ET.fromstring(element) for element in scenario.sumo_elements)
        ordered = sorted(scenario.breakdowns, key=lambda each: each.depart_s)
        root.extend(
            breakdown_vehicle(each, number, self.network) for number, each in enumerate(ordered)
        )
        if scenario.actuated:
            root.extend(actuated_program(self.network.junctions[each]) for each in JUNCTIONS)
        return ET.tostring(root, encoding="unicode")

    def _show_signals(self) -> None:
        for junction_id, signal in self._signals.items():
            state = signal.advance()
            if state != self._states[junction_id]:
                libsumo.trafficlight.setRedYellowGreenState(junction_id, state)
                self._states[junction_id] = state

    def _observe_halted(self) -> None:
        self.halted: dict[str, NDArray[np.float64]] = {
            junction_id: np.array(
                [libsumo.lane.getLastStepHaltingNumber(lane.id) for lane in layout.lanes], float
            )
            for junction_id, layout in self.network.junctions.items()
        }

    def _observations(self) -> Observations:
        return {
            junction_id: encode_observation(
                signal.phase,
                JUNCTIONS[junction_id].n_phases,
                signal.may_change,
                self.halted[junction_id].tolist(),
                self._capacities[junction_id],
            )
            for junction_id, signal in self._signals.items()
        }
