from __future__ import annotations

import torch

from models.networks.shipped import N_AGENTS
from models.training.mappo.value_scale import ValueScale


def test_value_scale_gives_each_agent_mean_zero_and_spread_one() -> None:
    scale = ValueScale(N_AGENTS)
    returns = torch.randn(1000, N_AGENTS) * torch.arange(1, N_AGENTS + 1) + 7
    scale.update(returns)
    normalised = scale.normalise(returns)
    torch.testing.assert_close(normalised.mean(0), torch.zeros(N_AGENTS), atol=1e-3, rtol=0)
    torch.testing.assert_close(normalised.std(0), torch.ones(N_AGENTS), atol=1e-2, rtol=0)
    torch.testing.assert_close(scale.restore(normalised), returns, atol=1e-3, rtol=1e-4)


def test_value_scale_before_any_return_changes_nothing() -> None:
    values = torch.randn(3, N_AGENTS)
    torch.testing.assert_close(ValueScale(N_AGENTS).restore(values), values)
