"""One training loop for both networks, with early stopping on the validation days."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import trange


@dataclass(frozen=True)
class FitSettings:
    """How long and how fast to learn.

    Attributes:
        learning_rate: at the start; halved whenever half the patience passes without progress.
        patience: epochs without progress on the validation days after which training ends.
    """

    learning_rate: float = 2e-3
    weight_decay: float = 1e-4
    max_epochs: int = 200
    patience: int = 16


def fit(
    network: nn.Module,
    batches: Callable[[], Iterable[Any]],
    loss_of: Callable[[Any], Tensor],
    validate: Callable[[], float],
    settings: FitSettings,
) -> float:
    """Train in place and leave the network as it was at its best.

    Args:
        batches: makes the batches of one epoch.
        loss_of: mean loss of a batch, to be differentiated.
        validate: error on the validation days.

    Returns:
        The least error on the validation days.
    """
    optimiser = torch.optim.AdamW(
        network.parameters(), settings.learning_rate, weight_decay=settings.weight_decay
    )
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimiser, factor=0.5, patience=settings.patience // 2 - 1
    )
    best, best_state, epochs_since = float("inf"), copy.deepcopy(network.state_dict()), 0
    progress = trange(settings.max_epochs, unit="epoch")
    for _ in progress:
        network.train()
        for batch in batches():
            optimiser.zero_grad()
            loss_of(batch).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
        network.eval()
        with torch.inference_mode():
            error = validate()
        schedule.step(error)
        epochs_since += 1
        if error < best:
            best, best_state, epochs_since = error, copy.deepcopy(network.state_dict()), 0
        progress.set_postfix(validation=f"{error:.4f}", best=f"{best:.4f}")
        if epochs_since >= settings.patience:
            break
    network.load_state_dict(best_state)
    network.eval()
    return best
