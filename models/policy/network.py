"""The shared recurrent policy: fc1 - GRU cell - fc2, with the agent's one-hot index in its input.

This module is the definition that training uses and that the serving step in
:mod:`models.policy.step` must agree with. The state dict has the form of :mod:`models.policy.form`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from models.junctions import N_ACTIONS
from models.policy.form import (
    HIDDEN_DIM,
    INPUT_DIM,
    MASKED_LOGIT,
    STATE_DICT_SHAPES,
    InvalidPolicyFileError,
)


class RecurrentPolicy(nn.Module):
    """relu(fc1) -> GRU cell -> fc2, shared by all agents."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(INPUT_DIM, HIDDEN_DIM)
        self.rnn = nn.GRUCell(HIDDEN_DIM, HIDDEN_DIM)
        self.fc2 = nn.Linear(HIDDEN_DIM, N_ACTIONS)

    def forward(self, inputs: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Advance B rows by one step.

        Args:
            inputs: (B, 24) observation zero-padded to 19, then the agent's one-hot index.
            hidden: (B, 128) hidden states before the step; zeros at the start of a run.

        Returns:
            Logits (B, 4), not yet masked, and the hidden states (B, 128) after the step.
        """
        hidden = self.rnn(torch.relu(self.fc1(inputs)), hidden)
        return self.fc2(hidden), hidden


def mask_logits(logits: Tensor, avail_actions: Tensor) -> Tensor:
    """Set logits of unavailable actions to -1e10. Both (B, 4); a mask of 0 is unavailable."""
    return logits.masked_fill(avail_actions == 0, MASKED_LOGIT)


def read_state_dict(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Read and check a policy file.

    Loading is restricted to tensors (``weights_only``), so a malicious pickle cannot run code.

    Raises:
        InvalidPolicyFileError: missing, unreadable, or with other keys, shapes, types or non-finite
            values.
    """
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise InvalidPolicyFileError(f"{os.fspath(path)}: no such file") from None
    except Exception as error:  # torch raises many types for a damaged or hostile file
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise InvalidPolicyFileError(
            f"{os.fspath(path)}: not a PyTorch state dict: {reason}"
        ) from error
    problem = _find_problem(loaded)
    if problem:
        raise InvalidPolicyFileError(f"{os.fspath(path)}: {problem}")
    return {name: tensor.detach() for name, tensor in loaded.items()}


def _find_problem(loaded: object) -> str | None:
    if not isinstance(loaded, Mapping):
        return f"expected a state dict, found {type(loaded).__name__}"
    missing = sorted(STATE_DICT_SHAPES.keys() - loaded.keys())
    unknown = sorted(map(str, loaded.keys() - STATE_DICT_SHAPES.keys()))
    if missing or unknown:
        return f"keys differ: missing {missing}, unknown {unknown}"
    for name, shape in STATE_DICT_SHAPES.items():
        tensor = loaded[name]
        if not isinstance(tensor, Tensor) or tensor.dtype != torch.float32:
            return f"{name} is not a float32 tensor"
        if tensor.layout != torch.strided or tensor.device.type != "cpu":
            return f"{name} is not a dense tensor in memory"
        if tuple(tensor.shape) != shape:
            return f"{name} has shape {tuple(tensor.shape)}, expected {shape}"
        if not torch.isfinite(tensor).all():
            return f"{name} has values that are not finite"
    return None
