"""The environment for trainers: PettingZoo's interface, the service's observations, the rewards."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

import libsumo
from gymnasium import spaces
from pettingzoo.test import parallel_api_test

from models.networks.shipped import JUNCTIONS, SHIPPED
from models.simulation.controllers import MaxPressure
from models.simulation.environment import DECISION_S, Scenario, TrafficEnvironment
from models.training.signals_env import STATE_DIM, SignalsEnv, typical_delay
from models.training.traffic_levels import TEST_LEVELS

CENTER = next(iter(JUNCTIONS))
FIVE_MINUTES = Scenario(duration_s=300)


@pytest.fixture
def env() -> Iterator[SignalsEnv]:
    env = SignalsEnv(lambda _: FIVE_MINUTES, team_share=0.0)
    yield env
    env.close()


def keep(env: SignalsEnv) -> dict[str, int]:
    return dict.fromkeys(env.agents, 0)


def test_interface_is_pettingzoos(env: SignalsEnv) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(env, num_cycles=70)  # more than an episode has
        env.close()
        gc.collect()


def test_observations_and_masks_are_the_services(env: SignalsEnv) -> None:
    observed, _ = env.reset(seed=3)
    with TrafficEnvironment(FIVE_MINUTES) as traffic:
        expected = [traffic.reset(3)] + [traffic.step({}) for _ in range(30)]
    observed, _ = env.reset(seed=3)
    for served in expected:
        for junction in JUNCTIONS.values():
            agent = observed[junction.id]
            np.testing.assert_array_equal(agent["observation"], served[junction.id])
            assert agent["action_mask"].tolist() == list(SHIPPED.avail_actions(junction.id))
            assert env.observation_space(junction.id).contains(agent)
        observed, *_ = env.step({})


def test_action_that_the_mask_forbids_is_refused(env: SignalsEnv) -> None:
    env.reset(seed=1)
    assert env.action_space("300839359") == spaces.Discrete(4)
    with pytest.raises(ValueError, match="phase 3 is not one of the 2 phases"):
        env.step({"300839359": 3})


def test_time_limit_truncates_and_does_not_terminate(env: SignalsEnv) -> None:
    env.reset(seed=1)
    for _ in range(59):
        *_, truncated, _ = env.step(keep(env))
        assert not any(truncated.values())
    _, _, terminated, truncated, _ = env.step(keep(env))
    assert all(truncated.values())
    assert not any(terminated.values())
    assert env.agents == []
    with pytest.raises(RuntimeError, match="reset the environment"):
        env.step({})


def test_resets_without_a_seed_go_on_to_the_next(env: SignalsEnv) -> None:
    def first_rewards(seed: int | None) -> list[dict[str, float]]:
        env.reset(seed=seed)
        return [env.step(keep(env))[1] for _ in range(20)]

    assert first_rewards(6) != (following := first_rewards(None))
    assert following == first_rewards(7)


def test_time_loss_reward_counts_what_stands_at_a_red_light(env: SignalsEnv) -> None:
    env.reset(seed=1)
    for _ in range(60):
        observed, rewards, *_ = env.step(keep(env))  # side streets never get green
    queue = {
        junction.id: float(
            observed[junction.id]["observation"][junction.n_phases + 1 :]
            @ [lane.capacity for lane in env.network.junctions[junction.id].lanes]
        )
        for junction in JUNCTIONS.values()
    }
    for agent, reward in rewards.items():
        assert -reward * typical_delay(FIVE_MINUTES) >= queue[agent]
    assert rewards[CENTER] == min(rewards.values())


def test_time_loss_reward_sums_up_to_what_all_vehicles_lose() -> None:
    hour = Scenario(12 * 3600)
    env = SignalsEnv(lambda _: hour, team_share=0.0)
    controller, lost_s = MaxPressure(env.network), 0.0
    observations, _ = env.reset(seed=3)
    while env.agents:
        seen = {agent: each["observation"] for agent, each in observations.items()}
        observations, rewards, *_ = env.step(controller.act(seen))
        lost_s -= sum(rewards.values()) * DECISION_S * typical_delay(hour)
    metrics = env.metrics()
    env.close()
    assert lost_s == pytest.approx(metrics.time_loss_s * metrics.demanded, rel=0.02)


def test_waiting_change_sums_up_to_the_waiting_at_the_end() -> None:
    env = SignalsEnv(lambda _: FIVE_MINUTES, "waiting_change", team_share=0.0)
    env.reset(seed=1)
    total = 0.0
    while env.agents:
        _, rewards, *_ = env.step(keep(env))
        total += rewards["300839359"]
    lanes = env.network.junctions["300839359"].lanes
    waiting = sum(libsumo.lane.getWaitingTime(lane.id) for lane in lanes)
    env.close()
    assert waiting > 60
    assert -total * 5 * typical_delay(FIVE_MINUTES) == pytest.approx(waiting)


def test_team_share_adds_the_others_rewards(env: SignalsEnv) -> None:
    rewards = []
    for share in (0.0, 0.5):
        team = SignalsEnv(lambda _: FIVE_MINUTES, team_share=share)
        team.reset(seed=1)
        for _ in range(10):
            _, reward, *_ = team.step(keep(team))
        rewards.append(np.array(list(reward.values())))
        team.close()
    own, mixed = rewards
    np.testing.assert_allclose(mixed, own + 0.5 * (own.sum() - own))


def test_state_shows_the_central_critic_the_whole_network(env: SignalsEnv) -> None:
    env.reset(seed=1)
    empty = env.state()
    for _ in range(40):
        observed, *_ = env.step(keep(env))
    state = env.state()
    assert state.shape == empty.shape == (STATE_DIM,)
    assert state.dtype == np.float32
    sizes = sum(junction.obs_size for junction in JUNCTIONS.values())
    together = np.concatenate([each["observation"] for each in observed.values()])
    np.testing.assert_array_equal(state[:sizes], together)
    assert (state[sizes:-2] > empty[sizes:-2]).sum() > 10  # and vehicles that no detector sees


def test_unknown_reward_is_refused() -> None:
    with pytest.raises(ValueError, match="reward 'speed' is not one of time_loss, waiting_change"):
        SignalsEnv(reward="speed")  # type: ignore[arg-type]


def test_light_traffic_weighs_as_much_as_heavy() -> None:
    delays = [typical_delay(make(1)) for make in TEST_LEVELS.values()]
    assert delays[0] < delays[1] < delays[2] < delays[3]
