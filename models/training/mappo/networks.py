"""The critic, and how networks start and run through time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from models.junctions import N_AGENTS
from models.policy.form import HIDDEN_DIM, INPUT_DIM
from models.policy.network import RecurrentPolicy, mask_logits, read_state_dict
from models.training.rollout import AVAIL_ACTIONS, Weights
from models.training.signals_env import STATE_DIM


class CentralCritic(nn.Module):
    """From the network's state (..., STATE_DIM) to one normalised value per agent (..., A)."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(STATE_DIM, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
        )
        self.values = nn.Linear(width, N_AGENTS)

    def forward(self, states: Tensor) -> Tensor:
        values: Tensor = self.values(self.layers(states))
        return values


def initialise(network: nn.Module, output: nn.Linear, output_gain: float) -> None:
    """Orthogonal weights and zero biases; a small output layer makes a policy nearly uniform."""
    for module in network.modules():
        if isinstance(module, nn.Linear):
            gain = output_gain if module is output else 2**0.5
            nn.init.orthogonal_(module.weight, gain)
            nn.init.zeros_(module.bias)
        elif isinstance(module, nn.GRUCell):
            nn.init.orthogonal_(module.weight_ih)
            nn.init.orthogonal_(module.weight_hh)
            nn.init.zeros_(module.bias_ih)
            nn.init.zeros_(module.bias_hh)


def unroll(actor: RecurrentPolicy, inputs: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """Run T steps of M sets of agents.

    Args:
        inputs: (T, M, A, INPUT_DIM).
        hidden: (M, A, HIDDEN_DIM) before the first step.

    Returns:
        Masked logits (T, M, A, N_ACTIONS) and the hidden states (T, M, A, HIDDEN_DIM) before each
        step.
    """
    n_sets = inputs.shape[1]
    rows = hidden.reshape(-1, HIDDEN_DIM)
    avail_actions = AVAIL_ACTIONS.repeat(n_sets, 1)
    logits, before = [], []
    for step in inputs.reshape(len(inputs), -1, INPUT_DIM):
        before.append(rows)
        output, rows = actor(step, rows)
        logits.append(mask_logits(output, avail_actions))
    shape = (len(inputs), n_sets, N_AGENTS, -1)
    return torch.stack(logits).reshape(shape), torch.stack(before).reshape(shape)


def pick(log_probabilities: Tensor, actions: Tensor) -> Tensor:
    """Those of the chosen actions: from (..., N_ACTIONS) and (...) to (...)."""
    return log_probabilities.gather(-1, actions.unsqueeze(-1)).squeeze(-1)


def mean_weights(files: Sequence[str]) -> dict[str, Tensor]:
    """Of policies that descend from the same one (Wortsman et al., "Model soups", 2022).

    Raises:
        InvalidPolicyFileError: a file cannot be used.
    """
    policies = [read_state_dict(file) for file in files]
    return {name: torch.stack([each[name] for each in policies]).mean(0) for name in policies[0]}


def as_arrays(weights: Mapping[str, Tensor]) -> Weights:
    return {name: tensor.numpy() for name, tensor in weights.items()}
