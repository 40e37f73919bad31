"""The environment in SUMO: signals as SUMO shows them, actions, repeatability, metrics."""

from __future__ import annotations

import itertools

import pytest

libsumo = pytest.importorskip("libsumo", reason="SUMO is not installed")


from models.networks.shipped import JUNCTIONS, SHIPPED  # noqa: E402
from models.signals.safety import Limits  # noqa: E402
from models.signals.signal import read_signals  # noqa: E402
from models.signals.states import MIN_GREEN_S, YELLOW_S  # noqa: E402
from models.simulation.controllers import MaxPressure, RandomPhases  # noqa: E402
from models.simulation.environment import Scenario, TrafficEnvironment  # noqa: E402
from models.simulation.episode import run_episode  # noqa: E402
from models.simulation.road_network import read_network  # noqa: E402
from tests.sim.shown_signals import record_signals  # noqa: E402
from tests.unit.models.signals.oracle import Bounds, judge  # noqa: E402

TEN_MINUTES = Scenario(duration_s=600)


def test_sumo_shows_full_yellow_and_minimum_green(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = record_signals(monkeypatch)
    with TrafficEnvironment(Scenario(duration_s=120)) as environment:
        environment.reset(1)
        for decision in itertools.count():
            if environment.done:
                break
            environment.step({j.id: decision % j.n_phases for j in JUNCTIONS.values()})
    for states in shown.values():
        stretches = [(state, len(list(group))) for state, group in itertools.groupby(states)][:-1]
        assert {seconds for state, seconds in stretches if "y" in state} == {YELLOW_S}
        assert min(seconds for state, seconds in stretches if "y" not in state) >= MIN_GREEN_S


def test_action_that_a_junction_does_not_have_is_refused() -> None:
    with TrafficEnvironment(TEN_MINUTES) as environment:
        environment.reset(1)
        with pytest.raises(ValueError, match="phase 2 is not one of the 2 phases"):
            environment.step({"300839359": 2})


def test_observations_have_the_documented_sizes_and_range() -> None:
    with TrafficEnvironment(TEN_MINUTES) as environment:
        observations = environment.reset(1)
        for _ in range(20):
            observations = environment.step({})
        for junction in JUNCTIONS.values():
            observation = observations[junction.id]
            assert observation.shape == (junction.obs_size,)
            assert observation.min() >= 0
            assert observation.max() <= 1
            assert observation[0] == 1  # without actions the first phase stays
            assert observation[junction.n_phases] == 1
        assert observations["300839359"][-1] > 0  # and the side street queues


def test_same_seed_gives_the_same_result_and_another_one_does_not() -> None:
    network = read_network()
    first, again, other = (
        run_episode(MaxPressure(network), TEN_MINUTES, seed, network) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_vehicles_kept_out_by_a_jam_count_as_waiting() -> None:
    class AllowOnePhase:
        def reset(self) -> None:
            pass

        def act(self, observations: object) -> dict[str, int]:
            return {}

    jam = run_episode(AllowOnePhase(), Scenario(duration_s=1200), 1)
    flow = run_episode(MaxPressure(read_network()), Scenario(duration_s=1200), 1)
    assert jam.demanded == flow.demanded
    assert jam.arrived < flow.arrived
    assert jam.waiting_s > 3 * flow.waiting_s
    assert jam.queues["300839359"] > flow.queues["300839359"]


def test_metrics_before_the_end_cover_what_has_passed() -> None:
    with TrafficEnvironment(TEN_MINUTES) as environment:
        environment.reset(1)
        for _ in range(24):
            environment.step({})
        metrics = environment.metrics()
    assert 0 < metrics.demanded < 200
    assert 0 < metrics.travel_s <= 120


def test_behind_the_safety_layer_sumo_shows_no_conflict_and_starves_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = record_signals(monkeypatch)
    run_episode(RandomPhases(1), Scenario(duration_s=900, safe=True), 1)
    bounds = Bounds(Limits().min_green_s, Limits().max_red_s)
    signals = read_signals(SHIPPED)
    for junction_id, states in shown.items():
        changes = [i for i, state in enumerate(states) if i == 0 or state != states[i - 1]]
        phases, matrix, _ = signals[junction_id]
        judge([*changes, len(states)], [*(states[i] for i in changes), ""], phases, matrix, bounds)
