"""PPO's clipped objective."""

from __future__ import annotations

import torch
from torch import Tensor

from models.training.mappo.batch import Batch
from models.training.mappo.networks import pick


def judge(
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
