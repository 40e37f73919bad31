"""Simulated detectors report what passes them, and observations follow from their readings."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import libsumo
import numpy as np
import pytest

from lab.sim.controllers import CONTROLS, run
from lab.sim.environment import Environment
from lab.sim.layouts import FILE, LAYOUTS, with_detectors
from lab.sim.loops import Loops
from lab.sim.scenario import Configured, Scenario
from lab.sim.signal import Signal
from models.networks.form import NetworkFile

PHASE_DECISIONS = 4
APPROACH = "left0A0_0", "left0A0_1"


class Watched(Loops):
    """Adds up what the loops count, beside the vehicles that cross the stop lines of APPROACH."""

    def __init__(self, network: NetworkFile) -> None:
        super().__init__(network)
        self.totals: Counter[tuple[str, str]] = Counter()
        self.crossed = 0
        self.before: set[str] = set()

    def look(self) -> None:
        super().look()
        here = {
            vehicle for lane in APPROACH for vehicle in libsumo.lane.getLastStepVehicleIDs(lane)
        }
        self.crossed += len(self.before - here)
        self.before = here

    def measure(self, signals: Mapping[str, Signal], interval_s: float) -> None:
        self.totals.update(self._counts)
        for covered_s in self._covered_s.values():
            assert 0 <= covered_s <= interval_s + 1e-6
        super().measure(signals, interval_s)

    def counted(self, kind: str) -> int:
        """Return what the detectors of a kind counted on APPROACH."""
        return sum(
            n
            for (_, detector), n in self.totals.items()
            if detector.startswith("left0A0_") and detector.endswith(kind)
        )


def drive(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> Watched:
    """Simulate the scenario with phases that alternate; return what its loops saw."""
    monkeypatch.setattr("lab.sim.environment.Loops", Watched)
    with Environment(scenario) as environment:
        environment.reset(1)
        for decision in range(scenario.n_decisions):
            phase = decision // PHASE_DECISIONS % 2
            environment.step(dict.fromkeys(environment.phases, phase))
        loops = environment._loops
        assert isinstance(loops, Watched)
        return loops


@pytest.mark.parametrize("layout", ["lanes", "approaches"])
def test_counts_are_those_of_the_vehicles_that_pass(town, layout, monkeypatch):
    loops = drive(with_detectors(town.scenario, layout), monkeypatch)
    assert loops.crossed > 40
    assert loops.counted("stop_line") == pytest.approx(loops.crossed, abs=1)
    still_wait = 8
    assert 0 <= loops.counted("advance") - loops.crossed <= still_wait


def observed_queues(scenario: Scenario) -> np.ndarray:
    """Return what is observed of all lanes at each decision, with phases that alternate."""
    seen = []
    with Environment(scenario) as environment:
        environment.reset(1)
        for decision in range(scenario.n_decisions):
            phase = decision // PHASE_DECISIONS % 2
            observed = environment.step(dict.fromkeys(environment.phases, phase))
            seen.append(np.concatenate([each[3:] for each in observed.values()]))
    return np.concatenate(seen)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_queues_are_estimated_from_the_readings(town, layout):
    known = observed_queues(town.scenario)
    seen = observed_queues(with_detectors(town.scenario, layout))
    assert seen.min() >= 0
    assert seen.max() <= 1
    assert known.sum() > 10
    assert np.corrcoef(seen, known)[0, 1] > 0.7


def test_a_step_of_half_a_second_is_measured_as_well(town, tmp_path, monkeypatch):
    halves = Configured(tmp_path, ("--step-length=0.5",), (), ())
    scenario = with_detectors(replace(town.scenario, configured=halves), "stop-line")
    loops = drive(scenario, monkeypatch)
    # a vehicle that changes lane on the loops is counted by both, as it is on a road
    assert 0 <= loops.counted("stop_line") - loops.crossed <= 3


def test_detectors_of_the_network_file_are_simulated_and_controllers_decide_by_them(town):
    laid_out = with_detectors(town.scenario, "lanes")
    declared = replace(laid_out, detectors=False)
    from_file = with_detectors(declared, FILE)
    assert from_file == laid_out
    known, seen = (
        run(each, 1, CONTROLS["max pressure"](each)).delay_s for each in (declared, from_file)
    )
    assert known != seen
    assert seen < 2 * known
