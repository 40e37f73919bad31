"""The shared recurrent policy: fc1 - GRU cell - fc2, with the agent's one-hot index in its input.

This module is the definition that training uses and that the serving step in
:mod:`models.policy.step` must agree with. The state dict has the form of :mod:`models.policy.form`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from lab.train.checkpoint import write_atomically
from models.networks.network import Network
from models.policy.file import read_weights
from models.policy.form import HIDDEN_DIM, MASKED_LOGIT, PolicyForm
from models.policy.inputs import InputLayout, Observation

Floats = NDArray[np.float32]
Weights = Mapping[str, Floats]  # arrays travel between processes as plain bytes


class RecurrentPolicy(nn.Module):
    """relu(fc1) -> GRU cell -> fc2, shared by all agents."""

    def __init__(self, form: PolicyForm) -> None:
        super().__init__()
        self.fc1 = nn.Linear(form.input_dim, HIDDEN_DIM)
        self.rnn = nn.GRUCell(HIDDEN_DIM, HIDDEN_DIM)
        self.fc2 = nn.Linear(HIDDEN_DIM, form.n_actions)

    def forward(self, inputs: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Advance B rows by one step.

        Args:
            inputs: (B, input_dim) observation, zero-padded, then the agent's one-hot index, if the
                form has one.
            hidden: (B, 128) hidden states before the step; zeros at the start of a run.

        Returns:
            Logits (B, n_actions), not yet masked, and the hidden states (B, 128) after the step.
        """
        hidden = self.rnn(torch.relu(self.fc1(inputs)), hidden)
        return self.fc2(hidden), hidden


def mask_logits(logits: Tensor, avail_actions: Tensor) -> Tensor:
    """Set logits of unavailable actions to -1e10. Both (B, n_actions); 0 is unavailable."""
    return logits.masked_fill(avail_actions == 0, MASKED_LOGIT)


def avail_actions_of(network: Network) -> Tensor:
    """Return (A, n_actions): 1 for each action that the agent has."""
    return torch.tensor([network.avail_actions(each) for each in network.ids])


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


def new_policy(network: Network) -> RecurrentPolicy:
    """Return a policy with random weights."""
    policy = RecurrentPolicy(PolicyForm.of(network))
    initialise(policy, policy.fc2, output_gain=0.01)
    return policy


def read_policy(path: Path, network: Network) -> RecurrentPolicy:
    """Read a policy file; a policy that does not see agents may learn to.

    Raises:
        InvalidPolicyFileError: the file is not a policy of this network.
    """
    policy = RecurrentPolicy(PolicyForm.of(network))
    weights = {name: torch.from_numpy(each) for name, each in read_weights(path, network).items()}
    seen = weights["fc1.weight"]
    weights["fc1.weight"] = functional.pad(seen, (0, policy.fc1.in_features - seen.shape[1]))
    policy.load_state_dict(weights)
    return policy


def write_policy(policy: RecurrentPolicy, path: Path) -> None:
    """Write a policy file."""
    write_atomically(OrderedDict(policy.state_dict()), path)


class Driver:
    """The policy in a worker process, from the first decision of an episode on."""

    def __init__(self, weights: Weights, network: Network) -> None:
        torch.set_num_threads(1)
        self._policy = RecurrentPolicy(PolicyForm.of(network))
        self._policy.load_state_dict(
            {name: torch.from_numpy(each) for name, each in weights.items()}
        )
        self._layout = InputLayout(network, one_hot=True)
        self._avail_actions = avail_actions_of(network)
        self._hidden = torch.zeros(network.n_agents, HIDDEN_DIM)

    @torch.inference_mode()
    def step(self, observations: Mapping[str, Observation]) -> tuple[Floats, Floats]:
        """Return what the policy sees (A, input_dim), and its masked logits (A, n_actions)."""
        inputs = self._layout.encode_all(observations)
        logits, self._hidden = self._policy(torch.from_numpy(inputs), self._hidden)
        return inputs, mask_logits(logits, self._avail_actions).numpy()


def as_arrays(weights: Mapping[str, Tensor]) -> Weights:
    return {name: tensor.numpy() for name, tensor in weights.items()}
