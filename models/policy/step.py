"""One batched step of the policy in NumPy: what the serving hot path runs.

At the batch sizes of serving (1 to some tens of rows) an eager PyTorch step spends most of its time
in dispatch; the same arithmetic in NumPy takes about half as long. :mod:`.network` stays the
definition, and a test keeps the two equal.

Source of the cell: Cho et al. 2014 in the form of ``torch.nn.GRUCell`` (gate order r, z, n).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from models.policy.form import HIDDEN_DIM, MASKED_LOGIT

if TYPE_CHECKING:
    from torch import Tensor  # two seconds to import

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Step:
    """Result of one step for B rows.

    Attributes:
        actions: (B,) index of the most probable available action.
        confidences: (B,) probability of that action, 0 to 1.
        hidden: (B, 128) hidden states after the step.
        finite: (B,) False where the input was so large that the step overflowed.
    """

    actions: NDArray[np.intp]
    confidences: Floats
    hidden: Floats
    finite: NDArray[np.bool_]


class PolicyStep:
    """The policy's weights, laid out for row-major batches."""

    def __init__(self, state_dict: Mapping[str, Tensor]) -> None:
        def weights(name: str) -> Floats:
            return np.ascontiguousarray(state_dict[name].numpy().T)

        self._fc1, self._fc1_bias = weights("fc1.weight"), weights("fc1.bias")
        self._ih, self._ih_bias = weights("rnn.weight_ih"), weights("rnn.bias_ih")
        self._hh, self._hh_bias = weights("rnn.weight_hh"), weights("rnn.bias_hh")
        self._fc2, self._fc2_bias = weights("fc2.weight"), weights("fc2.bias")

    def __call__(self, inputs: Floats, hidden: Floats, unavailable: NDArray[np.bool_]) -> Step:
        """Advance B rows by one step.

        Args:
            inputs: (B, 24) observation zero-padded to 19, then the agent's one-hot index.
            hidden: (B, 128) hidden states before the step.
            unavailable: (B, 4) True for actions that the row's junction does not have.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            features = np.maximum(inputs @ self._fc1 + self._fc1_bias, 0.0)
            new_hidden = self._gru(features, hidden)
            logits = new_hidden @ self._fc2 + self._fc2_bias
            logits[unavailable] = MASKED_LOGIT
            actions = logits.argmax(axis=1)
            # softmax at the maximum: exp(max - max) over the sum
            confidences = 1.0 / np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1)
        # Weights of 1e38 are finite and their logits need not be, so hidden alone does not tell.
        finite = np.logical_and(np.isfinite(new_hidden).all(axis=1), np.isfinite(confidences))
        return Step(actions, confidences, new_hidden, finite)

    def _gru(self, features: Floats, hidden: Floats) -> Floats:
        from_input = features @ self._ih + self._ih_bias
        from_hidden = hidden @ self._hh + self._hh_bias
        gates = _sigmoid(from_input[:, : 2 * HIDDEN_DIM] + from_hidden[:, : 2 * HIDDEN_DIM])
        reset, update = gates[:, :HIDDEN_DIM], gates[:, HIDDEN_DIM:]
        candidate = np.tanh(
            from_input[:, 2 * HIDDEN_DIM :] + reset * from_hidden[:, 2 * HIDDEN_DIM :]
        )
        new_hidden: Floats = candidate + update * (hidden - candidate)
        return new_hidden


def _sigmoid(x: Floats) -> Floats:
    # by tanh, which neither overflows nor warns for large negative x
    y: Floats = 0.5 * np.tanh(0.5 * x) + 0.5
    return y
