"""Simulated detectors report what passes them, and observations follow from their readings."""

from __future__ import annotations

from dataclasses import replace

import libsumo
import numpy as np
import pytest

from models.simulation.controllers import CONTROLS, run
from models.simulation.environment import Environment
from models.simulation.layouts import FILE, LAYOUTS, with_detectors
from models.simulation.loops import Loops
from models.simulation.scenario import Scenario
from tests.sim.towns import Town

PHASE_DECISIONS = 4


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Town:
    return Town(tmp_path_factory.mktemp("town"))


class Watched(Loops):
    """Keeps every reading, beside the vehicles that cross the stop lines of A0."""

    def look(self) -> None:
        super().look()
        here = set()
        for lane in ("left0A0_0", "left0A0_1"):
            here |= set(libsumo.lane.getLastStepVehicleIDs(lane))
        before = self.__dict__.setdefault("on_edge", set())
        self.__dict__["crossed"] = self.__dict__.get("crossed", 0) + len(before - here)
        self.on_edge = here

    def measure(self, signals, interval_s):
        for (junction, detector), count in self._counts.items():
            kept = self.__dict__.setdefault("totals", {})
            kept[junction, detector] = kept.get((junction, detector), 0) + count
        for covered_s in self._covered_s.values():
            assert 0 <= covered_s <= interval_s + 1e-6
        super().measure(signals, interval_s)


def drive(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> Watched:
    """Simulate the scenario with phases that alternate; return what its loops saw."""
    monkeypatch.setattr("models.simulation.environment.Loops", Watched)
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
    passed = dict.fromkeys(("stop_line", "advance"), 0)
    for (_, detector), count in loops.totals.items():
        if detector.startswith("left0A0_"):
            passed[detector.rpartition(".")[2]] += count
    assert loops.crossed > 40
    assert passed["stop_line"] == pytest.approx(loops.crossed, abs=1)
    assert passed["advance"] == pytest.approx(loops.crossed, abs=8), "some still wait at the end"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_queues_are_estimated_from_the_readings(town, layout):
    scenario = with_detectors(town.scenario, layout)
    seen, known = [], []
    with Environment(scenario) as environment:
        observations = environment.reset(1)
        for decision in range(scenario.n_decisions):
            phase = decision // PHASE_DECISIONS % 2
            observations = environment.step(dict.fromkeys(environment.phases, phase))
            true = environment.true_observations()
            for name, observed in observations.items():
                assert all(0 <= value <= 1 for value in observed)
                seen += list(observed[3:])
                known += list(true[name][3:])
    assert sum(known) > 10
    assert np.corrcoef(seen, known)[0, 1] > 0.7


def test_a_step_of_half_a_second_is_measured_as_well(town, tmp_path, monkeypatch):
    config = tmp_path / "town.sumocfg"
    config.write_text('<configuration><step-length value="0.5"/></configuration>')
    scenario = with_detectors(replace(town.scenario, config=config), "stop-line")
    loops = drive(scenario, monkeypatch)
    passed = sum(n for (_, each), n in loops.totals.items() if each.startswith("left0A0_"))
    # a vehicle that changes lane on the loops is counted by both, as it is on a road
    assert 0 <= passed - loops.crossed <= 3


def test_detectors_of_the_network_file_are_simulated_and_controllers_decide_by_them(town):
    laid_out = with_detectors(town.scenario, "lanes")
    declared = replace(laid_out, detectors=False)
    from_file = with_detectors(declared, FILE)
    assert from_file == laid_out
    known, seen = (
        run(each, 1, CONTROLS["max pressure"](each)).time_loss_s for each in (declared, from_file)
    )
    assert known != seen
    assert seen < 2 * known
