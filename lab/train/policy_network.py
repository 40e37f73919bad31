"""The shared recurrent policy: fc1 - GRU cell - fc2, with the agent's one-hot index in its input.

This module is the definition that training uses and that the serving step in
:mod:`models.policy.step` must agree with. The state dict has the form of :mod:`models.policy.form`.
"""

from __future__ import annotations

import os

import torch
from torch import Tensor, nn

from models.networks.network import Network
from models.policy.file import read_weights
from models.policy.form import HIDDEN_DIM, MASKED_LOGIT, PolicyForm


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


def read_state_dict(path: str | os.PathLike[str], network: Network) -> dict[str, Tensor]:
    """Read and check a policy file, as :func:`models.policy.file.read_weights` does."""
    weights = read_weights(path, network)
    return {name: torch.from_numpy(each) for name, each in weights.items()}
