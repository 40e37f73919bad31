"""MAPPO's arithmetic: advantages, value scale, chunks, the objective, and its checkpoints."""

from __future__ import annotations

import csv
from collections import OrderedDict
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("libsumo", reason="SUMO is not installed")

from models.junctions import JUNCTIONS, N_ACTIONS, N_AGENTS
from models.policy.form import HIDDEN_DIM, INPUT_DIM, InvalidPolicyFileError
from models.policy.network import read_state_dict
from models.simulation.metrics import Metrics
from models.training.checkpoint import InvalidCheckpointError, write_atomically
from models.training.mappo import (
    Batch,
    Config,
    Log,
    Trainer,
    ValueScale,
    compare_repeats,
    estimate_advantages,
    pick,
    standardise,
    unroll,
)
from models.training.rollout import Episode
from models.training.signals_env import STATE_DIM

CONFIG = Config(critic_iterations=0, chunk=4, epochs=3, minibatches=2, episodes=2, repeats=1)
N_DECISIONS = 12
NO_METRICS = Metrics(0, 0, 0, {}, 0, 0)


def make_episode(seed: int) -> Episode:
    rng = np.random.default_rng(seed)
    inputs = rng.random((N_DECISIONS, N_AGENTS, INPUT_DIM), np.float32)
    inputs[..., -N_AGENTS:] = np.eye(N_AGENTS)
    n_phases = [junction.n_phases for junction in JUNCTIONS.values()]
    return Episode(
        inputs=inputs,
        states=rng.random((N_DECISIONS + 1, STATE_DIM), np.float32),
        actions=rng.integers(n_phases, size=(N_DECISIONS, N_AGENTS)),
        free=rng.random((N_DECISIONS, N_AGENTS)) < 0.7,
        rewards=rng.normal(size=(N_DECISIONS, N_AGENTS)).astype(np.float32),
        metrics=NO_METRICS,
    )


@pytest.fixture
def batch() -> Batch:
    return Trainer(CONFIG).prepare([make_episode(1), make_episode(2)])[0]


def test_advantages_are_the_discounted_sums_of_the_errors() -> None:
    gamma, gae_lambda = 0.9, 0.8
    rewards, values = torch.randn(6, 2), torch.randn(7, 2)
    errors = [rewards[t] + gamma * values[t + 1] - values[t] for t in range(6)]
    expected = [
        sum((gamma * gae_lambda) ** (k - t) * errors[k] for k in range(t, 6)) for t in range(6)
    ]
    advantages = estimate_advantages(rewards, values, gamma, gae_lambda)
    torch.testing.assert_close(advantages, torch.stack([torch.as_tensor(e) for e in expected]))


def test_end_of_an_episode_is_valued_and_not_taken_for_the_end_of_traffic() -> None:
    advantages = estimate_advantages(
        torch.zeros(1, 1), torch.tensor([[0.0], [10.0]]), gamma=0.5, gae_lambda=1.0
    )
    assert advantages.item() == 5


def test_what_repeats_of_one_traffic_share_does_not_count() -> None:
    traffic, merit = torch.randn(5, 3, 1, 2), torch.randn(5, 3, 4, 2)
    seen, alone = ((traffic + merit), merit)
    both = [compare_repeats(part.reshape(5, 12, 2), 4) for part in (seen, alone)]
    torch.testing.assert_close(*both)
    expected = merit[1, 2, 3] - merit[1, 2, :3].mean(0)
    torch.testing.assert_close(both[0][1, 11], expected)
    torch.testing.assert_close(compare_repeats(traffic[:, :, 0], 1), traffic[:, :, 0])


def test_every_traffic_and_agent_has_the_same_weight() -> None:
    advantages = torch.randn(50, 6, 2) * torch.tensor([1.0, 1, 1, 9, 9, 9])[:, None] + 3
    free = torch.rand(50, 6, 2) < 0.5
    standard = standardise(advantages, free, repeats=3)
    for traffic in (slice(0, 3), slice(3, 6)):
        for agent in range(2):
            values = standard[:, traffic, agent][free[:, traffic, agent]]
            assert values.mean().item() == pytest.approx(0, abs=1e-5)
            assert values.std().item() == pytest.approx(1, abs=1e-4)


def test_standardising_decisions_without_a_choice_stays_finite() -> None:
    nothing_free = torch.zeros(4, 2, 1, dtype=torch.bool)
    assert standardise(torch.ones(4, 2, 1), nothing_free, repeats=2).isfinite().all()


def test_value_scale_gives_each_agent_mean_zero_and_spread_one() -> None:
    scale = ValueScale()
    returns = torch.randn(1000, N_AGENTS) * torch.arange(1, N_AGENTS + 1) + 7
    scale.update(returns)
    normalised = scale.normalise(returns)
    torch.testing.assert_close(normalised.mean(0), torch.zeros(N_AGENTS), atol=1e-3, rtol=0)
    torch.testing.assert_close(normalised.std(0), torch.ones(N_AGENTS), atol=1e-2, rtol=0)
    torch.testing.assert_close(scale.restore(normalised), returns, atol=1e-3, rtol=1e-4)


def test_value_scale_before_any_return_changes_nothing() -> None:
    values = torch.randn(3, N_AGENTS)
    torch.testing.assert_close(ValueScale().restore(values), values)


def test_chunks_from_stored_hidden_states_give_the_whole_sequence(batch: Batch) -> None:
    trainer = Trainer(CONFIG)
    inputs = torch.from_numpy(np.stack([make_episode(1).inputs, make_episode(2).inputs], axis=1))
    whole, _ = unroll(trainer.actor, inputs, torch.zeros(2, N_AGENTS, HIDDEN_DIM))
    chunked, _ = unroll(trainer.actor, batch.inputs, batch.hidden)
    # chunk 2 k + e holds decisions 4 k to 4 k + 3 of episode e
    for chunk in range(6):
        first, episode = 4 * (chunk // 2), chunk % 2
        torch.testing.assert_close(chunked[:, chunk], whole[first : first + 4, episode])


def test_chunks_keep_what_belongs_together(batch: Batch) -> None:
    episode = make_episode(2)
    np.testing.assert_array_equal(batch.actions[:, 3], episode.actions[4:8])
    np.testing.assert_array_equal(batch.free[:, 3], episode.free[4:8])
    np.testing.assert_array_equal(batch.states[:, 3], episode.states[4:8])


def test_phases_that_a_junction_lacks_are_never_drawn(batch: Batch) -> None:
    logits, _ = unroll(Trainer(CONFIG).actor, batch.inputs, batch.hidden)
    probabilities = logits.softmax(-1)
    for junction in JUNCTIONS.values():
        assert (probabilities[..., junction.agent_index, junction.n_phases :] == 0).all()


def test_learning_makes_better_actions_likelier(batch: Batch) -> None:
    trainer = Trainer(replace(CONFIG, epochs=10, target_kl=10.0, entropy_bonus=0.0))
    better = batch.actions == 0
    free = torch.ones_like(batch.free)
    trainer.learn(replace(batch, advantages=torch.where(better, 1.0, -1.0), free=free))
    logits, _ = unroll(trainer.actor, batch.inputs, batch.hidden)
    gain = pick(logits.log_softmax(-1), batch.actions) - batch.log_probabilities
    assert gain[better].mean() > 0
    assert gain[~better].mean() < 0


def test_decisions_without_a_choice_teach_nothing(batch: Batch) -> None:
    trainer = Trainer(replace(CONFIG, entropy_bonus=0.0))
    before = {name: tensor.clone() for name, tensor in trainer.actor.state_dict().items()}
    trainer.learn(replace(batch, advantages=torch.where(batch.free, 0.0, 5.0)))
    assert all(torch.equal(before[name], t) for name, t in trainer.actor.state_dict().items())


def test_epochs_end_once_the_policy_has_moved_far_enough(batch: Batch) -> None:
    row = Trainer(replace(CONFIG, target_kl=-1.0)).learn(batch)
    assert row["actor_steps"] == 1


def test_critic_learns_alone_at_first(batch: Batch) -> None:
    trainer = Trainer(replace(CONFIG, critic_iterations=1))
    actor, critic = (
        {name: tensor.clone() for name, tensor in network.state_dict().items()}
        for network in (trainer.actor, trainer.critic)
    )
    trainer.learn(batch)
    assert all(torch.equal(actor[name], t) for name, t in trainer.actor.state_dict().items())
    assert not all(torch.equal(critic[name], t) for name, t in trainer.critic.state_dict().items())


def test_actor_is_saved_in_the_form_that_is_served(tmp_path: Path) -> None:
    write_atomically(Trainer(CONFIG).actor.state_dict(), tmp_path / "best.th")
    assert (
        sum(tensor.numel() for tensor in read_state_dict(tmp_path / "best.th").values()) == 102_788
    )


def test_initial_policy_is_nearly_uniform_with_orthogonal_weights() -> None:
    actor = Trainer(CONFIG).actor
    weights = actor.rnn.weight_hh.detach()
    torch.testing.assert_close(weights.T @ weights, torch.eye(HIDDEN_DIM), atol=1e-4, rtol=0)
    logits, _ = actor(torch.rand(8, INPUT_DIM), torch.zeros(8, HIDDEN_DIM))
    assert logits.abs().max() < 0.1


def test_unusable_start_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.th").write_bytes(b"not weights")
    with pytest.raises(InvalidPolicyFileError, match="not a PyTorch state dict"):
        Trainer(replace(CONFIG, warm_start=str(tmp_path / "bad.th")))


def test_start_from_several_policies_is_the_mean_of_their_weights(tmp_path: Path) -> None:
    policies = [Trainer(replace(CONFIG, seed=seed)).actor.state_dict() for seed in (1, 2)]
    files = [str(tmp_path / f"{number}.th") for number in range(2)]
    for file, policy in zip(files, policies, strict=True):
        write_atomically(OrderedDict(policy), Path(file))
    start = Trainer(replace(CONFIG, warm_start=",".join(files))).actor.state_dict()
    for name, tensor in start.items():
        torch.testing.assert_close(tensor, (policies[0][name] + policies[1][name]) / 2)


def test_kept_weights_follow_the_actors_slowly_and_survive_a_resume(tmp_path: Path) -> None:
    trainer = Trainer(replace(CONFIG, average_decay=0.75))
    for value in (0.0, 4.0):
        torch.nn.init.constant_(trainer.actor.fc2.bias, value)
        trainer.average.update_parameters(trainer.actor)
    assert trainer.average_weights()["fc2.bias"].tolist() == pytest.approx([1.0] * N_ACTIONS)
    write_atomically(trainer.state_dict(), tmp_path / "checkpoint.pt")
    resumed = Trainer(replace(CONFIG, average_decay=0.75))
    resumed.resume(tmp_path / "checkpoint.pt")
    assert resumed.average_weights()["fc2.bias"].tolist() == pytest.approx([1.0] * N_ACTIONS)


def test_resumed_trainer_learns_as_the_first_would_have(tmp_path: Path, batch: Batch) -> None:
    first = Trainer(CONFIG)
    first.learn(batch)
    write_atomically(first.state_dict(), tmp_path / "checkpoint.pt")
    second = Trainer(CONFIG)
    second.resume(tmp_path / "checkpoint.pt")
    assert first.learn(batch) == second.learn(batch)
    for name, tensor in first.actor.state_dict().items():
        assert torch.equal(tensor, second.actor.state_dict()[name])


def test_checkpoint_of_another_configuration_is_refused(tmp_path: Path) -> None:
    write_atomically(Trainer(CONFIG).state_dict(), tmp_path / "checkpoint.pt")
    with pytest.raises(InvalidCheckpointError, match=r"made with gamma 0.995, not 0.5"):
        Trainer(replace(CONFIG, gamma=0.5)).resume(tmp_path / "checkpoint.pt")


def test_optimiser_of_another_form_is_refused(tmp_path: Path) -> None:
    state = Trainer(CONFIG).state_dict()
    state["actor_optimizer"]["param_groups"][0]["params"] = [0]
    write_atomically(state, tmp_path / "checkpoint.pt")
    with pytest.raises(InvalidCheckpointError, match="actor_optimizer does not fit"):
        Trainer(CONFIG).resume(tmp_path / "checkpoint.pt")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"reward": "speed"}, "reward 'speed' is none of"),
        ({"average_decay": 1.0}, "average_decay 1.0 is not from 0 to below 1"),
        ({"episodes": 8, "repeats": 3}, "8 episodes are not groups of 3 repeats"),
        ({"duration_s": 1000, "chunk": 24}, "1000 s are not a multiple of chunks of 120 s"),
    ],
)
def test_impossible_configuration_is_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        replace(CONFIG, **changes)


def test_every_hyperparameter_is_explained() -> None:
    explained = Config.explanations()
    assert [field.name for field in fields(Config)] == list(explained)
    assert explained["critic_rate"] == "Adam's initial step size for the critic"


def test_log_drops_rows_that_no_checkpoint_stands_behind(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.csv", iteration=0)
    for iteration in range(3):
        log.write({"iteration": iteration, "reward": -0.5})
    Log(tmp_path / "log.csv", iteration=2).write({"iteration": 2, "reward": -0.25})
    with (tmp_path / "log.csv").open(newline="") as file:
        rows = [(row["iteration"], row["reward"]) for row in csv.DictReader(file)]
    assert rows == [("0", "-0.5"), ("1", "-0.5"), ("2", "-0.25")]
