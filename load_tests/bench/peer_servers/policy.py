"""The policy as the peers serve it, with the hidden states in a dict by junction.

The module needs only NumPy, PyTorch and :mod:`models`, so it runs in every peer's own
environment.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch

from lab.train.policy_network import mask_logits, read_policy
from models.networks.shipped import JUNCTIONS, SHIPPED
from models.policy.form import HIDDEN_DIM, SHIPPED_POLICY
from models.policy.inputs import InputLayout

encode = InputLayout(SHIPPED).encode

Step = Callable[[str, list[float]], tuple[int, float]]
"""From a junction and its observation to an action and its probability."""


def torch_step() -> Step:
    """Load the policy into eager PyTorch."""
    torch.set_num_threads(1)
    path = Path(os.environ.get("MAPPO_AGENT_PATH", SHIPPED_POLICY))
    policy = read_policy(path, SHIPPED).eval()
    states = {junction: torch.zeros(1, HIDDEN_DIM) for junction in JUNCTIONS}
    masks = {id: torch.tensor([SHIPPED.avail_actions(id)]) for id in JUNCTIONS}

    @torch.inference_mode()
    def step(junction: str, obs: list[float]) -> tuple[int, float]:
        inputs = torch.from_numpy(encode([JUNCTIONS[junction].agent_index], [obs]))
        logits, states[junction] = policy(inputs, states[junction])
        probabilities = torch.softmax(mask_logits(logits, masks[junction]), dim=1)
        confidence, action = probabilities.max(dim=1)
        return int(action), float(confidence)

    return step
