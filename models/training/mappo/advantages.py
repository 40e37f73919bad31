"""How much better a decision was than was to be expected."""

from __future__ import annotations

import torch
from torch import Tensor


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

    The vehicles that come are the same in all of them, and none of them knows the others' actions:
    their mean takes away noise, four fifths of all there is, and nothing of the actions' merit.
    Mao et al., "Variance Reduction for Reinforcement Learning in Input-Driven Environments", 2019.
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
