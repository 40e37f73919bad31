"""The critic, and how networks start and run through time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from lab.train.policy_network import RecurrentPolicy, mask_logits, read_state_dict
from models.networks.network import Network
from models.policy.form import HIDDEN_DIM, PolicyForm

Weights = Mapping[str, NDArray[np.float32]]  # arrays travel between processes as plain bytes


class CentralCritic(nn.Module):
    """From the network's state (..., state_dim) to one normalised value per agent (..., A)."""

    def __init__(self, state_dim: int, n_agents: int, width: int = 256) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(state_dim, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
        )
        self.values = nn.Linear(width, n_agents)

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


@torch.no_grad()
def soften(actor: RecurrentPolicy, temperature: float) -> None:
    """Divide the actor's logits, so that it samples more freely; none of their order changes."""
    for parameter in actor.fc2.parameters():
        parameter.div_(temperature)


def unroll(
    actor: RecurrentPolicy, inputs: Tensor, hidden: Tensor, avail_actions: Tensor
) -> tuple[Tensor, Tensor]:
    """Run T steps of M sets of agents.

    Args:
        inputs: (T, M, A, input_dim).
        hidden: (M, A, HIDDEN_DIM) before the first step.
        avail_actions: (A, n_actions), 0 is unavailable.

    Returns:
        Masked logits (T, M, A, n_actions) and the hidden states (T, M, A, HIDDEN_DIM) before each
        step.
    """
    n_sets, n_agents, input_dim = inputs.shape[1:]
    rows = hidden.reshape(-1, HIDDEN_DIM)
    avail_actions = avail_actions.repeat(n_sets, 1)
    logits, before = [], []
    for step in inputs.reshape(len(inputs), -1, input_dim):
        before.append(rows)
        output, rows = actor(step, rows)
        logits.append(mask_logits(output, avail_actions))
    shape = (len(inputs), n_sets, n_agents, -1)
    return torch.stack(logits).reshape(shape), torch.stack(before).reshape(shape)


def pick(log_probabilities: Tensor, actions: Tensor) -> Tensor:
    """Those of the chosen actions: from (..., n_actions) and (...) to (...)."""
    return log_probabilities.gather(-1, actions.unsqueeze(-1)).squeeze(-1)


def mean_weights(files: Sequence[str], network: Network) -> dict[str, Tensor]:
    """Of policies that descend from the same one (Wortsman et al., "Model soups", 2022).

    One that does not see agents gets weights of zero for them, and may learn to.

    Raises:
        InvalidPolicyFileError: a file cannot be used.
    """
    policies = [read_state_dict(file, network) for file in files]
    inputs = PolicyForm.of(network).input_dim
    for each in policies:
        seen = each["fc1.weight"]
        each["fc1.weight"] = functional.pad(seen, (0, inputs - seen.shape[1]))
    return {name: torch.stack([each[name] for each in policies]).mean(0) for name in policies[0]}


def make_policy(weights: Weights, network: Network) -> RecurrentPolicy:
    """Return the policy with these weights, for a separate process."""
    torch.set_num_threads(1)
    policy = RecurrentPolicy(PolicyForm.of(network))
    policy.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    return policy


def avail_actions_of(network: Network) -> Tensor:
    """Return (A, n_actions): 1 for each action that the agent has."""
    return torch.tensor([network.avail_actions(each) for each in network.ids])


def as_arrays(weights: Mapping[str, Tensor]) -> Weights:
    return {name: tensor.numpy() for name, tensor in weights.items()}
