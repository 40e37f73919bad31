"""Chunks, what an iteration learns, and checkpoints."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from lab.sim.metrics import Metrics
from lab.train.checkpoint import InvalidCheckpointError
from lab.train.mappo import Batch, Config, Episode, Trainer, check_length, pick
from lab.train.policy_network import avail_actions_of, unroll
from lab.train.rewards import state_dim
from lab.train.traffic import DrawnHours
from models.networks.shipped import SHIPPED
from models.policy.form import HIDDEN_DIM, PolicyForm

CONFIG = Config(
    critic_iterations=0,
    chunk=4,
    epochs=3,
    minibatches=2,
    episodes=2,
    rate_factor=1.0,
    actor_rate=1.2e-3,
)
TRAFFIC = DrawnHours()
N_AGENTS, N_ACTIONS = SHIPPED.n_agents, SHIPPED.n_actions
INPUT_DIM = PolicyForm.of(SHIPPED).input_dim
STATE_DIM = state_dim(TRAFFIC.example)
N_DECISIONS = 12
AVAIL_ACTIONS = avail_actions_of(SHIPPED)


def trainer_of(config: Config) -> Trainer:
    return Trainer(config, TRAFFIC)


def make_episode(seed: int) -> Episode:
    rng = np.random.default_rng(seed)
    inputs = rng.random((N_DECISIONS, N_AGENTS, INPUT_DIM), np.float32)
    inputs[..., -N_AGENTS:] = np.eye(N_AGENTS)
    n_phases = [junction.n_phases for junction in SHIPPED.junctions.values()]
    seen: dict[str, np.ndarray] = {
        "inputs": inputs,
        "states": rng.random((N_DECISIONS + 1, STATE_DIM), np.float32),
        "actions": rng.integers(n_phases, size=(N_DECISIONS, N_AGENTS)),
        "free": rng.random((N_DECISIONS, N_AGENTS)) < 0.7,
        "rewards": rng.normal(size=(N_DECISIONS, N_AGENTS)).astype(np.float32),
    }
    return Episode(seen, Metrics(0, 0, 0, 0, 0))


@pytest.fixture
def batch() -> Batch:
    return trainer_of(CONFIG).prepare([make_episode(1), make_episode(2)])[0]


def test_chunks_from_stored_hidden_states_give_the_whole_sequence(batch):
    trainer = trainer_of(CONFIG)
    seen = [make_episode(seed).seen["inputs"] for seed in (1, 2)]
    inputs = torch.from_numpy(np.stack(seen, axis=1))
    whole, _ = unroll(trainer.actor, inputs, torch.zeros(2, N_AGENTS, HIDDEN_DIM), AVAIL_ACTIONS)
    chunked, _ = unroll(trainer.actor, batch.inputs, batch.hidden, AVAIL_ACTIONS)
    # chunk 2 k + e holds decisions 4 k to 4 k + 3 of episode e
    for chunk in range(6):
        first, episode = 4 * (chunk // 2), chunk % 2
        torch.testing.assert_close(chunked[:, chunk], whole[first : first + 4, episode])


def test_phases_that_a_junction_lacks_are_never_drawn(batch):
    logits, _ = unroll(trainer_of(CONFIG).actor, batch.inputs, batch.hidden, AVAIL_ACTIONS)
    probabilities = logits.softmax(-1)
    for junction in SHIPPED.junctions.values():
        assert (probabilities[..., junction.agent_index, junction.n_phases :] == 0).all()


def test_learning_makes_better_actions_likelier(batch):
    trainer = trainer_of(replace(CONFIG, epochs=10, target_kl=10.0, entropy_bonus=0.0))
    better = batch.actions == 0
    free = torch.ones_like(batch.free)
    trainer.learn(replace(batch, advantages=torch.where(better, 1.0, -1.0), free=free))
    logits, _ = unroll(trainer.actor, batch.inputs, batch.hidden, AVAIL_ACTIONS)
    gain = pick(logits.log_softmax(-1), batch.actions) - batch.log_probabilities
    assert gain[better].mean() > 0
    assert gain[~better].mean() < 0


def test_decisions_without_a_choice_teach_nothing(batch):
    trainer = trainer_of(replace(CONFIG, entropy_bonus=0.0))
    before = {name: tensor.clone() for name, tensor in trainer.actor.state_dict().items()}
    trainer.learn(replace(batch, advantages=torch.where(batch.free, 0.0, 5.0)))
    assert all(torch.equal(before[name], t) for name, t in trainer.actor.state_dict().items())


def test_epochs_end_once_the_policy_has_moved_far_enough(batch):
    row = trainer_of(replace(CONFIG, target_kl=-1.0)).learn(batch)
    assert row["actor_steps"] == 1


def test_steps_are_shorter_after_one_that_was_too_long_and_never_longer_than_was_said(batch):
    trainer = trainer_of(replace(CONFIG, target_kl=1e-9, rate_factor=2.0))
    trainer.learn(batch)
    assert trainer.actor_scale == 0.5
    trainer.config = replace(trainer.config, target_kl=10.0)
    for scale in (1.0, 1.0):
        trainer.learn(batch)
        assert trainer.actor_scale == scale


def test_critic_learns_alone_at_first(batch):
    trainer = trainer_of(replace(CONFIG, critic_iterations=1))
    actor, critic = (
        {name: tensor.clone() for name, tensor in network.state_dict().items()}
        for network in (trainer.actor, trainer.critic)
    )
    trainer.learn(batch)
    assert all(torch.equal(actor[name], t) for name, t in trainer.actor.state_dict().items())
    assert not all(torch.equal(critic[name], t) for name, t in trainer.critic.state_dict().items())


def test_initial_policy_is_nearly_uniform_with_orthogonal_weights():
    actor = trainer_of(CONFIG).actor
    weights = actor.rnn.weight_hh.detach()
    torch.testing.assert_close(weights.T @ weights, torch.eye(HIDDEN_DIM), atol=1e-4, rtol=0)
    logits, _ = actor(torch.rand(8, INPUT_DIM), torch.zeros(8, HIDDEN_DIM))
    assert logits.abs().max() < 0.1


def test_resumed_trainer_learns_as_the_first_would_have(tmp_path, batch):
    config = replace(CONFIG, rate_factor=2.0, target_kl=1e-9)
    first, second = trainer_of(config), trainer_of(config)
    for _ in range(2):
        first.learn(batch)
    assert first.actor_scale == 0.25
    first.save(tmp_path / "checkpoint.pt")
    second.resume(tmp_path / "checkpoint.pt")
    assert first.learn(batch) == second.learn(batch)
    resumed = second.actor.state_dict()
    for name, tensor in first.actor.state_dict().items():
        assert torch.equal(tensor, resumed[name])


def test_a_checkpoint_of_another_configuration_or_of_other_rules_is_refused(tmp_path, city):
    Trainer(CONFIG, city).save(tmp_path / "checkpoint.pt")
    with pytest.raises(InvalidCheckpointError, match=r"made with gamma 0.97, not 0.5"):
        Trainer(replace(CONFIG, gamma=0.5), city).resume(tmp_path / "checkpoint.pt")
    other = replace(city, scenario=replace(city.scenario, decision_s=8))
    with pytest.raises(InvalidCheckpointError, match="made with decision_s 5, not 8"):
        Trainer(CONFIG, other).resume(tmp_path / "checkpoint.pt")


def test_an_episode_that_is_shorter_than_a_chunk_is_refused(city):
    short = replace(city, scenario=replace(city.scenario, end_s=20))
    check_length(CONFIG, short)
    check_length(replace(CONFIG, chunk=5, iterations=0), short)
    with pytest.raises(ValueError, match="has 4 decisions, and MAPPO learns from 5 in a row"):
        check_length(replace(CONFIG, chunk=5), short)


def test_the_episodes_of_an_iteration_have_one_traffic_and_other_actions():
    tasks = trainer_of(CONFIG).tasks()
    assert tasks == [tasks[0]._replace(repeat=number) for number in range(CONFIG.episodes)]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"iterations": -1}, "iterations -1 is negative"),
        ({"validate_every": 0}, "validate_every 0 is less than 1"),
        ({"episodes": 0}, "episodes 0 is less than 1"),
        ({"pedestrian_weight": float("inf")}, "pedestrian_weight inf is not 0 or more"),
    ],
)
def test_an_impossible_configuration_is_refused(changes, problem):
    with pytest.raises(ValueError, match=problem):
        Config(**changes)
