"""What PPO learns from: chunks of decisions, their advantages, and the clipped objective."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lab.train.mappo.networks import pick


@dataclass(frozen=True)
class Batch:
    """The chunks of all episodes: N chunks of C decisions of A agents.

    Attributes:
        inputs: (C, N, A, input_dim); states: (C, N, state_dim).
        hidden: (N, A, HIDDEN_DIM) as the actor left it at the start of each chunk.
        actions, free, log_probabilities, advantages, returns: (C, N, A).
    """

    inputs: Tensor
    states: Tensor
    hidden: Tensor
    actions: Tensor
    free: Tensor
    log_probabilities: Tensor
    advantages: Tensor
    returns: Tensor

    def take(self, chunks: Tensor) -> Batch:
        parts = {name: part[:, chunks] for name, part in vars(self).items() if name != "hidden"}
        return Batch(hidden=self.hidden[chunks], **parts)


def in_chunks(part: Tensor, length: int) -> Tensor:
    """(T, E, ...) to (C, E * (T // C), ...); decisions after the last whole chunk are left out."""
    part = part[: len(part) // length * length]
    chunks = part.reshape(-1, length, *part.shape[1:])  # (T / C, C, E, ...)
    return chunks.transpose(0, 1).flatten(1, 2)


def estimate_advantages(rewards: Tensor, values: Tensor, gamma: float, gae_lambda: float) -> Tensor:
    """GAE over (T, ...) rewards and (T + 1, ...) values; the end is a cut, not a terminal state."""
    errors = rewards + gamma * values[1:] - values[:-1]
    advantages = torch.zeros_like(rewards)
    running = torch.zeros_like(rewards[0])
    for step in reversed(range(len(rewards))):
        running = errors[step] + gamma * gae_lambda * running
        advantages[step] = running
    return advantages


def by_traffic(part: Tensor, repeats: int) -> Tensor:
    """(T, E, A), the repeats of one traffic side by side, to (T, E / repeats, repeats, A)."""
    return part.reshape(len(part), -1, repeats, part.shape[-1])


def compare_repeats(advantages: Tensor, repeats: int) -> Tensor:
    """Judge each decision by what the other episodes with the same traffic had at that moment.

    The vehicles that arrive are the same in all of them, and none of them knows the others'
    actions: their mean takes away noise, four fifths of all there is, and nothing of the actions'
    merit. Mao et al., "Variance Reduction for Reinforcement Learning in Input-Driven
    Environments", 2019.
    """
    if repeats == 1:
        return advantages
    groups = by_traffic(advantages, repeats)
    others = (groups.sum(2, keepdim=True) - groups) / (repeats - 1)
    return (groups - others).reshape(advantages.shape)


def standardise(advantages: Tensor, free: Tensor, repeats: int) -> Tensor:
    """Mean 0 and spread 1 per traffic and agent, of free decisions: light traffic counts too."""
    groups, chosen = by_traffic(advantages, repeats), by_traffic(free, repeats)
    count = chosen.sum((0, 2), keepdim=True).clamp(min=2)
    mean = (groups * chosen).sum((0, 2), keepdim=True) / count
    squares = (groups - mean).square() * chosen
    spread = (squares.sum((0, 2), keepdim=True) / (count - 1)).sqrt()
    return ((groups - mean) / (spread + 1e-8)).reshape(advantages.shape)


def clipped_loss(
    logits: Tensor, part: Batch, clip: float, entropy_bonus: float
) -> tuple[Tensor, dict[str, float]]:
    """Compare the actor with the one that drove the rollout.

    Args:
        logits: (C, N, A, n_actions) of the present actor, masked.
        part: what the rollout's actor did, and what came of it.

    Returns:
        The loss to descend, and what to log of it.
    """
    every = logits.log_softmax(-1)
    difference = pick(every, part.actions) - part.log_probabilities
    ratio = difference.exp()
    low, high = 1 - clip, 1 + clip
    gain = torch.minimum(ratio * part.advantages, ratio.clamp(low, high) * part.advantages)
    weight = part.free / part.free.sum()  # a decision without a choice teaches nothing
    entropy = -(weight * (every.exp() * every).sum(-1)).sum()
    loss = -(weight * gain).sum() - entropy_bonus * entropy
    with torch.no_grad():
        kl = (weight * (ratio - 1 - difference)).sum()
        clipped = (weight * ((ratio < low) | (ratio > high))).sum()
    return loss, {
        "policy_loss": loss.item(),
        "entropy": entropy.item(),
        "kl": kl.item(),
        "clipped": clipped.item(),
    }


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
