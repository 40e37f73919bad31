"""Sizes of the policy and the form of its file, for those who need no PyTorch.

The form is that of EPyMARL's ``agent.th`` (Papoudakis et al., "Benchmarking Multi-Agent Deep
Reinforcement Learning Algorithms in Cooperative Tasks", 2021; its ``RNNAgent``).
"""

from __future__ import annotations

from pathlib import Path

from models.junctions import MAX_OBS, N_ACTIONS, N_AGENTS

SHIPPED_POLICY = Path(__file__).parents[1] / "weights" / "agent.th"

INPUT_DIM = MAX_OBS + N_AGENTS
HIDDEN_DIM = 128
MASKED_LOGIT = -1e10

STATE_DICT_SHAPES: dict[str, tuple[int, ...]] = {
    "fc1.weight": (HIDDEN_DIM, INPUT_DIM),
    "fc1.bias": (HIDDEN_DIM,),
    "rnn.weight_ih": (3 * HIDDEN_DIM, HIDDEN_DIM),
    "rnn.weight_hh": (3 * HIDDEN_DIM, HIDDEN_DIM),
    "rnn.bias_ih": (3 * HIDDEN_DIM,),
    "rnn.bias_hh": (3 * HIDDEN_DIM,),
    "fc2.weight": (N_ACTIONS, HIDDEN_DIM),
    "fc2.bias": (N_ACTIONS,),
}


class InvalidPolicyFileError(ValueError):
    """The file is not a policy that this network can run; the message says why."""
