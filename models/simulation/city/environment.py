"""All signals of a city at once, simulated by SUMO in this process.

``reset`` and ``step`` speak in dicts by junction id, as those of the shipped network do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

import libsumo
import numpy as np

from models.simulation.city.scenario import CityScenario
from models.simulation.city.signal import CitySignal
from models.simulation.city.sumo_run import command_of, telling
from models.simulation.metrics import Metrics, read_trip_metrics
from models.simulation.observation import Observation, encode_observation

Observations = dict[str, Observation]


class CityEnvironment:
    """A context manager that frees the simulator.

    Args:
        programs: elements of a SUMO additional file, in XML; with any, or with ``own_programs``,
            signals do what their programs say, and actions are ignored.
    """

    def __init__(
        self, scenario: CityScenario, programs: Sequence[str] = (), own_programs: bool = False
    ) -> None:
        self.scenario = scenario
        self.by_programs = own_programs or bool(programs)
        self._programs = programs
        self._junctions = {each.id: each for each in scenario.network.junctions}
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

    def close(self) -> None:
        """Free the simulator and its files; closing twice is harmless."""
        libsumo.close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def reset(self, seed: int) -> Observations:
        """Start the scenario anew.

        Raises:
            InvalidScenarioError: SUMO refuses it, such as for routes that leave the network.
        """
        self.close()
        self._folder = TemporaryDirectory(prefix="greenwave-")
        self._trips = Path(self._folder.name, "trips.xml")
        additional = Path(self._folder.name, "programs.add.xml")
        additional.write_text(f"<additional>{''.join(self._programs)}</additional>")
        scenario = self.scenario
        with telling(scenario):
            libsumo.start(command_of(scenario, seed, self._trips, [additional]))
        self.time_s = scenario.begin_s
        self._shown = dict.fromkeys(self._junctions, "")
        times = scenario.yellow_s, scenario.all_red_s, scenario.min_green_s
        self._signals = {
            each.id: CitySignal([phase.state or "" for phase in each.phases], *times)
            for each in self._junctions.values()
        }
        self._queue_sums = dict.fromkeys(self._junctions, 0.0)
        self._looks = 0
        return self._look()

    @property
    def is_over(self) -> bool:
        return self.time_s >= self.scenario.end_s

    @property
    def phases(self) -> dict[str, int]:
        """The phase of each junction; during a change the one to come."""
        return {name: signal.phase for name, signal in self._signals.items()}

    def step(self, actions: Mapping[str, int]) -> Observations:
        """Request green phases and let the time of a decision pass; who has no entry keeps its.

        Raises:
            ValueError: an action that the junction does not have.
            KeyError: an unknown junction.
            InvalidScenarioError: SUMO ends, such as for routes that leave the network.
        """
        for name, action in actions.items():
            self._signals[name].request(action)
        until_s = min(self.time_s + self.scenario.decision_s, self.scenario.end_s)
        with telling(self.scenario):
            while self.time_s < until_s:
                if self.by_programs:
                    self.time_s = until_s
                else:
                    self._show()
                    self.time_s += 1
                libsumo.simulationStep(self.time_s)
        return self._look()

    def queue(self, lane: str) -> int:
        """Return the standing vehicles on any lane of the net."""
        return int(libsumo.lane.getLastStepHaltingNumber(lane))

    def vehicles(self, lane: str) -> int:
        """Return all vehicles on any lane of the net."""
        return int(libsumo.lane.getLastStepVehicleNumber(lane))

    def waiting_s(self, lane: str) -> float:
        """Return how long those on any lane of the net have now been standing, in total."""
        return float(libsumo.lane.getWaitingTime(lane))

    def metrics(self) -> Metrics:
        """Close the simulation, at its end or before, and count what happened until now."""
        libsumo.close()
        looks = max(1, self._looks)
        queues = {name: total / looks for name, total in self._queue_sums.items()}
        return read_trip_metrics(self._trips, queues)

    def _show(self) -> None:
        for name, signal in self._signals.items():
            state = signal.advance()
            if state != self._shown[name]:
                libsumo.trafficlight.setRedYellowGreenState(name, state)
                self._shown[name] = state

    def _look(self) -> Observations:
        self._looks += 1
        return {name: self._observe(name) for name in self._junctions}

    def _observe(self, name: str) -> Observation:
        junction, signal = self._junctions[name], self._signals[name]
        halted = [lane.count(self.queue) for lane in junction.lanes]
        self._queue_sums[name] += float(np.sum(halted))
        counted = halted
        if self.scenario.counts == "all":
            counted = [lane.count(self.vehicles) for lane in junction.lanes]
        return encode_observation(
            signal.phase,
            len(junction.phases),
            signal.may_change,
            counted,
            [lane.capacity for lane in junction.lanes],
        )
