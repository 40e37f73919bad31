"""Pedestrians are observed where the network file asks for it, and count in the reward."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from lab.sim.controllers import CONTROLS, open_run, policy_control, run
from lab.sim.environment import Environment
from lab.train.rewards import Rewards, state_dim
from models.networks.network import LONGEST_CALL_S, network_of
from models.signals.safety import Limits
from models.signals.signal import read_signals
from tests.sim.towns import RandomPhases
from tests.sim.walked_town import END_S, walked_scenario
from tests.unit.models.signals.oracle import Bounds, judge

pytestmark = pytest.mark.timeout(300)


def test_a_call_is_observed_from_the_first_wait_until_the_crossing_is_served(tmp_path):
    scenario = walked_scenario(tmp_path)
    ((name, junction),) = network_of(scenario.network).junctions.items()
    entry = scenario.network.junctions[0]
    assert len(entry.crossings) == junction.n_calls == 4
    walks = [
        {link.crossing for at, link in entry.placed_links if state[at] in "Gg"} - {None}
        for state in ((phase.state or "") for phase in entry.phases)
    ]
    calls: list[np.ndarray] = []
    with Environment(scenario) as environment:
        observed = environment.reset(1)
        for phase in (0, 1):
            for _ in range(10):
                assert observed[name].shape == (junction.obs_size,)
                calls.append(observed[name][-junction.n_calls :])
                observed = environment.step({name: phase})
    longest = np.max(calls, axis=0) * LONGEST_CALL_S
    called = {name for name, s in zip(entry.crossings, longest, strict=True) if s > 0}
    assert called  # on the way from the south to the north
    assert max(longest) >= 30
    for phase, served in ((0, calls[9]), (1, calls[19])):
        waiting = {name for name, call in zip(entry.crossings, served, strict=True) if call}
        assert not waiting & walks[phase]


def test_who_waits_costs_reward_by_the_weight(tmp_path):
    scenario = walked_scenario(tmp_path, pedestrian_calls=False)
    rewards = {}
    for weight in (0.0, 1.0, 2.0):
        with Environment(scenario) as environment:
            observed, seen = environment.reset(1), Rewards(environment, 0.0, weight)
            assert seen.state(observed).shape == (state_dim(scenario),)
            rewards[weight] = np.zeros(20)
            for place in range(20):
                environment.step({"A0": 1})
                rewards[weight][place] = seen.look()[0]
    waited = rewards[0.0] - rewards[1.0]
    assert waited[-1] > waited[5] >= 0
    np.testing.assert_allclose(rewards[0.0] - rewards[2.0], 2 * waited)


def test_behind_the_safety_layer_sumo_shows_every_walk_whole_and_in_time(tmp_path):
    scenario = replace(walked_scenario(tmp_path), guarded=True)
    network = network_of(scenario.network)
    ((name, signal),) = read_signals(network).items()
    assert set(signal.walk_s.values()) == {7.0}
    with open_run(scenario, 1, lambda _: RandomPhases(network, 1)) as (environment, random, seen):
        while not environment.is_over:
            seen = environment.step(random.act(seen))
        changes = environment.changes
    assert {change.signal for change in changes} == {name}
    times_s = [*(change.time_s for change in changes), END_S]
    states = [*(change.state for change in changes), ""]
    judge(times_s, states, signal, Bounds(Limits().min_green_s, Limits().max_red_s))
    assert states.count(signal.phases[0]) > 3
    longer = signal._replace(walk_s=dict.fromkeys(signal.walk_s, 20.0))
    with pytest.raises(AssertionError, match="s of green of 20"):
        judge(times_s, states, longer, Bounds(Limits().min_green_s, Limits().max_red_s))


def test_a_policy_that_observes_calls_is_trained_and_begins_as_greedy_for_pedestrians(tmp_path):
    scenario = walked_scenario(tmp_path)
    command = [sys.executable, "-m", "lab.train", f"--network={tmp_path / 'town.json'}"]
    files = f"--net={scenario.net}", f"--routes={scenario.demand.files[0]}", f"--end={END_S}"
    size = "--iterations=1", "--episodes=2", "--validation-seeds=1", f"--output={tmp_path / 'run'}"
    done = subprocess.run([*command, *files, *size], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    fixed = run(scenario, 1, CONTROLS["fixed time"](scenario))
    for kept in ("start.th", "best.th"):
        driven = run(scenario, 1, policy_control(scenario, tmp_path / "run" / kept))
        assert driven.walks == fixed.walks == 20
        assert driven.walk_delay_longest_s <= fixed.walk_delay_longest_s
