"""Advantages, the scale of values, and the log of a run."""

import csv

import pytest
import torch

from lab.train.mappo import ValueScale, compare, estimate_advantages, standardise
from lab.train.run import read_log, write_log
from models.networks.shipped import N_AGENTS


def test_advantages_are_the_discounted_sums_of_the_errors():
    gamma, gae_lambda = 0.9, 0.8
    rewards, values = torch.randn(6, 2), torch.randn(7, 2)
    errors = [rewards[t] + gamma * values[t + 1] - values[t] for t in range(6)]
    expected = [
        sum((gamma * gae_lambda) ** (k - t) * errors[k] for k in range(t, 6)) for t in range(6)
    ]
    advantages = estimate_advantages(rewards, values, gamma, gae_lambda)
    torch.testing.assert_close(advantages, torch.stack([torch.as_tensor(e) for e in expected]))


def test_what_episodes_of_one_traffic_share_does_not_count():
    traffic, merit = torch.randn(5, 1, 2), torch.randn(5, 4, 2)
    compared = compare(traffic + merit)
    torch.testing.assert_close(compared, compare(merit))
    torch.testing.assert_close(compared[1, 3], merit[1, 3] - merit[1, :3].mean(0))
    torch.testing.assert_close(compare(traffic), traffic)


def test_every_agent_has_the_same_weight():
    advantages = torch.randn(50, 6, 2) * torch.tensor([1.0, 9.0]) + 3
    free = torch.rand(50, 6, 2) < 0.5
    standard = standardise(advantages, free)
    for agent in range(2):
        values = standard[..., agent][free[..., agent]]
        assert values.mean().item() == pytest.approx(0, abs=1e-5)
        assert values.std().item() == pytest.approx(1, abs=1e-4)


def test_standardising_decisions_without_a_choice_stays_finite():
    nothing_free = torch.zeros(4, 2, 1, dtype=torch.bool)
    assert standardise(torch.ones(4, 2, 1), nothing_free).isfinite().all()


def test_value_scale_gives_each_agent_mean_zero_and_spread_one():
    scale = ValueScale(N_AGENTS)
    returns = torch.randn(1000, N_AGENTS) * torch.arange(1, N_AGENTS + 1) + 7
    scale.update(returns)
    normalised = scale.normalise(returns)
    torch.testing.assert_close(normalised.mean(0), torch.zeros(N_AGENTS), atol=1e-3, rtol=0)
    torch.testing.assert_close(normalised.std(0), torch.ones(N_AGENTS), atol=1e-2, rtol=0)
    torch.testing.assert_close(scale.restore(normalised), returns, atol=1e-3, rtol=1e-4)


def test_log_drops_rows_that_no_checkpoint_stands_behind(tmp_path):
    path = tmp_path / "log.csv"
    rows: list[dict[str, str]] = []
    for iteration in range(3):
        write_log(path, rows, {"iteration": iteration, "reward": -0.5})
    write_log(path, read_log(path, iteration=2), {"iteration": 2, "reward": -0.25})
    with path.open(newline="") as file:
        written = [(row["iteration"], row["reward"]) for row in csv.DictReader(file)]
    assert written == [("0", "-0.5"), ("1", "-0.5"), ("2", "-0.25")]
