"""The policy's forward pass once more, from the formulas alone, in float64.

fc1, relu; GRU cell (Cho et al. 2014; gates r, z, n as in PyTorch's documentation of GRUCell); fc2;
mask; softmax. It shares nothing with the product, not even the junction table and the layout of the
input: a mistake in those would otherwise be made twice and not be seen.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from lab.train.policy_network import RecurrentPolicy
from models.policy.form import PolicyForm

Doubles = NDArray[np.float64]

JUNCTIONS = [
    "joinedS_265580996_300839357",
    "300839359",
    "265580972",
    "1270712555",
    "8541180897",
]
N_AVAILABLE = [4, 2, 2, 2, 2]


def random_state_dict(seed: int = 0, scale: float = 3.0) -> dict[str, torch.Tensor]:
    """Draw weights so large that different observations give clearly different confidences."""
    torch.manual_seed(seed)
    return {
        name: w.clone() * scale
        for name, w in RecurrentPolicy(PolicyForm(19, 5, 4)).state_dict().items()
    }


class ReferencePolicy:
    def __init__(self, state_dict: Mapping[str, torch.Tensor]) -> None:
        self._w = {name: w.double().numpy() for name, w in state_dict.items()}

    def step(
        self, junction: str, obs: Sequence[float], hidden: Doubles | None = None
    ) -> tuple[int, float, Doubles]:
        """Return action, confidence and the new hidden state (128,); ``hidden`` None is zeros."""
        w = self._w
        agent = JUNCTIONS.index(junction)
        h = np.zeros(128) if hidden is None else hidden
        x = np.zeros(24)
        x[: len(obs)] = obs
        x[19 + agent] = 1.0
        features = np.maximum(0.0, w["fc1.weight"] @ x + w["fc1.bias"])
        w_ir, w_iz, w_in = np.split(w["rnn.weight_ih"], 3)
        b_ir, b_iz, b_in = np.split(w["rnn.bias_ih"], 3)
        w_hr, w_hz, w_hn = np.split(w["rnn.weight_hh"], 3)
        b_hr, b_hz, b_hn = np.split(w["rnn.bias_hh"], 3)
        r = _sigmoid(w_ir @ features + b_ir + w_hr @ h + b_hr)
        z = _sigmoid(w_iz @ features + b_iz + w_hz @ h + b_hz)
        n = np.tanh(w_in @ features + b_in + r * (w_hn @ h + b_hn))
        h = (1 - z) * n + z * h
        logits = (w["fc2.weight"] @ h + w["fc2.bias"])[: N_AVAILABLE[agent]]
        odds = np.exp(logits - logits.max())
        action = int(np.argmax(odds))
        return action, float(odds[action] / odds.sum()), h

    def replay(
        self, junction: str, observations: Sequence[Sequence[float]]
    ) -> list[tuple[int, float]]:
        """Return the actions and confidences of a run of steps from zeros."""
        hidden: Doubles | None = None
        decisions: list[tuple[int, float]] = []
        for obs in observations:
            action, confidence, hidden = self.step(junction, obs, hidden)
            decisions.append((action, confidence))
        return decisions


class ReferenceJunction:
    """One junction's policy and hidden state, starting from zeros."""

    def __init__(self, state_dict: Mapping[str, torch.Tensor], junction: str) -> None:
        self._policy = ReferencePolicy(state_dict)
        self._junction = junction
        self.hidden = np.zeros(128)

    def step(self, obs: Sequence[float]) -> tuple[int, float]:
        """Return the action and its probability, and advance the hidden state."""
        action, confidence, self.hidden = self._policy.step(self._junction, obs, self.hidden)
        return action, confidence


def _sigmoid(x: Doubles) -> Doubles:
    result: Doubles = 1.0 / (1.0 + np.exp(-x))
    return result
