"""SUMO's actuated control as a peer, and lanes that a breakdown closes."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

import libsumo

from models.signals.states import MIN_GREEN_S, YELLOW_S
from models.simulation.actuated import MAX_GREEN_S
from models.simulation.breakdown import Breakdown
from models.simulation.controllers import KeepPhase, MaxPressure, RandomPhases
from models.simulation.environment import Scenario, TrafficEnvironment
from models.simulation.episode import run_episode
from models.simulation.road_network import read_network
from tests.sim.shown_signals import record_signals

QUARTER = Scenario(duration_s=900)
ACTUATED = replace(QUARTER, actuated=True)


def record_states(monkeypatch: pytest.MonkeyPatch, scenario: Scenario) -> dict[str, list[str]]:
    shown = record_signals(monkeypatch)
    run_episode(RandomPhases(1), scenario, 1)
    return shown


def test_actuated_greens_follow_the_traffic_within_their_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = read_network()
    for junction_id, states in record_states(monkeypatch, ACTUATED).items():
        phases = network.junctions[junction_id].phases
        assert {state for state in states if "y" not in state} == set(phases)
        lengths = run_lengths(states)[:-1]
        assert {seconds for state, seconds in lengths if "y" in state} == {YELLOW_S}
        greens = [seconds for state, seconds in lengths if "y" not in state]
        assert min(greens) >= MIN_GREEN_S
        assert max(greens) <= MAX_GREEN_S + 1
        assert len(set(greens)) > 3


def run_lengths(states: list[str]) -> list[tuple[str, int]]:
    runs: list[tuple[str, int]] = []
    for state in states:
        if runs and runs[-1][0] == state:
            runs[-1] = (state, runs[-1][1] + 1)
        else:
            runs.append((state, 1))
    return runs


def test_actuated_control_beats_random_phases_and_ignores_actions() -> None:
    actuated = run_episode(KeepPhase(), ACTUATED, 1)
    assert actuated == run_episode(RandomPhases(1), ACTUATED, 1)
    assert actuated.time_loss_s < run_episode(RandomPhases(1), QUARTER, 1).time_loss_s


def test_breakdown_closes_its_lane_for_its_time() -> None:
    breakdown = Breakdown("center_to_park", 1, 0.5, QUARTER.begin_s + 60, 400)
    place = 0.5 * read_network().edge_lengths_m["center_to_park"]
    blocked = []
    scenario = replace(QUARTER, breakdowns=(breakdown,))
    with TrafficEnvironment(scenario) as environment:
        controller = MaxPressure(environment.network)
        observations = environment.reset(1)
        while not environment.done:
            observations = environment.step(controller.act(observations))
            standing = [
                vehicle
                for vehicle in libsumo.lane.getLastStepVehicleIDs("center_to_park_1")
                if libsumo.vehicle.isStopped(vehicle)
            ]
            if standing:
                blocked.append(environment.time_s)
                assert libsumo.vehicle.getLanePosition(standing[0]) == pytest.approx(place, abs=2)
    assert blocked[-1] - blocked[0] == pytest.approx(400, abs=10)
