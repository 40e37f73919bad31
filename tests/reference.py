"""An independent forward pass of the policy, in float64 and straight from the formulas of the GRU
paper.

Shares no code with the product: fc1, then per gate its own matrices, then fc2, mask and softmax.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

JUNCTIONS = [
    "joinedS_265580996_300839357",
    "300839359",
    "265580972",
    "1270712555",
    "8541180897",
]
N_AVAILABLE = [4, 2, 2, 2, 2]
WIDTH = 128


def _sigmoid(x: np.ndarray) -> np.ndarray:
    y: np.ndarray = 1.0 / (1.0 + np.exp(-x))
    return y


class ReferenceJunction:
    """One junction's policy and hidden state, starting from zeros."""

    def __init__(self, state_dict: Mapping[str, object], junction: str) -> None:
        self._w = {name: np.asarray(value, dtype=np.float64) for name, value in state_dict.items()}
        self._agent = JUNCTIONS.index(junction)
        self.hidden = np.zeros(WIDTH)

    def step(self, obs: Sequence[float]) -> tuple[int, float]:
        """Action and its probability; advances the hidden state."""
        w = self._w
        x = np.zeros(24)
        x[: len(obs)] = obs
        x[19 + self._agent] = 1.0
        x = np.maximum(w["fc1.weight"] @ x + w["fc1.bias"], 0.0)
        gates = {}
        for number, gate in enumerate("rzn"):
            rows = slice(number * WIDTH, (number + 1) * WIDTH)
            from_input = w["rnn.weight_ih"][rows] @ x + w["rnn.bias_ih"][rows]
            from_hidden = w["rnn.weight_hh"][rows] @ self.hidden + w["rnn.bias_hh"][rows]
            gates[gate] = (from_input, from_hidden)
        r, z = (_sigmoid(gates[gate][0] + gates[gate][1]) for gate in "rz")
        n = np.tanh(gates["n"][0] + r * gates["n"][1])
        self.hidden = (1.0 - z) * n + z * self.hidden
        logits = w["fc2.weight"] @ self.hidden + w["fc2.bias"]
        available = logits[: N_AVAILABLE[self._agent]]
        action = int(np.argmax(available))
        total = sum(math.exp(logit - available[action]) for logit in available)
        return action, 1.0 / total
