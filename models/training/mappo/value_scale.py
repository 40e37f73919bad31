"""The scale of the values that the critic learns."""

from __future__ import annotations

import torch
from torch import Tensor


class ValueScale:
    """Running mean and spread of the returns per agent, in which the critic's values are counted.

    Without it the critic would chase targets whose size changes as the policy learns.
    """

    decay = 0.95

    def __init__(self, n_agents: int) -> None:
        self.n_agents = n_agents
        self.moments = torch.zeros(2, n_agents)  # of returns and of their squares
        self.weight = torch.zeros(1)

    def update(self, returns: Tensor) -> None:
        """Take in returns of shape (..., A)."""
        flat = returns.reshape(-1, self.n_agents)
        moments = torch.stack([flat.mean(0), flat.square().mean(0)])
        self.moments = self.decay * self.moments + (1 - self.decay) * moments
        self.weight = self.decay * self.weight + (1 - self.decay)

    def _mean_and_spread(self) -> tuple[Tensor, Tensor]:
        if not self.weight:
            return torch.zeros(self.n_agents), torch.ones(self.n_agents)
        mean, square = self.moments / self.weight
        return mean, (square - mean.square()).clamp(min=1e-4).sqrt()

    def normalise(self, returns: Tensor) -> Tensor:
        mean, spread = self._mean_and_spread()
        return (returns - mean) / spread

    def restore(self, values: Tensor) -> Tensor:
        mean, spread = self._mean_and_spread()
        return values * spread + mean
