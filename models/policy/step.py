"""One batched step of the policy in NumPy: what the serving hot path runs.

At the batch sizes of serving (1 to some tens of rows) an eager PyTorch step spends most of its time
in dispatch; the same arithmetic in NumPy takes 0.3 to 0.5 times as long. :mod:`.network` stays the
definition, and a test keeps the two equal.

Source of the cell: Cho et al. 2014 in the form of ``torch.nn.GRUCell`` (gate order r, z, n)::

    r, z = sigmoid(W x + V h + b)
    n = tanh(W x + b + r * (V h + c))
    h' = n + z * (h - n)

Three things spare passes over memory, and calls, which cost as much when B is small:

- Each gate is a separate block (B, 128), not 128 columns of 384: what is done to a block runs
  over contiguous memory.
- sigmoid(y) is 1 / (1 + exp(-y)). With the minus in the weights of r and z, ``r * x`` is
  ``x / (1 + exp(y))``.
- One input of the agent's one-hot is 1, the others 0. So the bias of fc1 is in their rows of fc1,
  and these make one more feature that is always 1: its row of W is b. Of a policy that does not
  see agents, all these rows are alike; of many agents, each looks up its own instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.networks.network import Network
from models.policy.file import read_weights, sees_agents
from models.policy.form import HIDDEN_DIM, PolicyForm
from models.policy.inputs import InputLayout

Floats = NDArray[np.float32]

_MAX_ROWS = 128  # of one step: with more, the weights and the rows do not share a cache

# Arrays without axes: beside them an operation takes the short way for operands of equal shape.
_ZERO, _ONE = np.zeros((), np.float32), np.ones((), np.float32)


class Step(NamedTuple):
    """Result of one step for B rows.

    Attributes:
        actions: (B,) index of the most probable available action.
        confidences: (B,) probability of that action, 0 to 1.
        hidden: (B, 128) hidden states after the step, in separate memory.
        finite: (B,) False where the input was so large that the step overflowed.
    """

    actions: NDArray[np.intp]
    confidences: Floats
    hidden: Floats
    finite: NDArray[np.bool_]


class PolicyStep:
    """The policy's weights, laid out for row-major batches of a network's junctions.

    Attributes:
        form: of the weights.
    """

    def __init__(self, state_dict: Mapping[str, ArrayLike], network: Network) -> None:
        def weights(name: str) -> Floats:
            return np.array(np.asarray(state_dict[name]).T, order="C")

        first = weights("fc1.weight")
        self.form = PolicyForm.of(network, sees_agents(first.T.shape, network))
        n_obs = self._max_obs = network.max_obs
        fc1 = np.zeros((n_obs + network.n_agents, HIDDEN_DIM + 1), np.float32)
        fc1[: len(first), :HIDDEN_DIM] = first
        fc1[n_obs:, :HIDDEN_DIM] += weights("fc1.bias")
        fc1[n_obs:, HIDDEN_DIM] = 1.0
        looks_up = not InputLayout(network).one_hot
        self._fc1: Floats = fc1[:n_obs] if looks_up else fc1
        self._agents: Floats | None = fc1[n_obs:] if looks_up else None
        bias, hidden_bias = weights("rnn.bias_ih"), weights("rnn.bias_hh")
        bias[: 2 * HIDDEN_DIM] += hidden_bias[: 2 * HIDDEN_DIM]
        self._ih = _gates(np.vstack([weights("rnn.weight_ih"), bias]))
        self._hh = _gates(weights("rnn.weight_hh"))
        self._hidden_bias = hidden_bias[None, 2 * HIDDEN_DIM :]
        self._fc2, self._fc2_bias = weights("fc2.weight"), weights("fc2.bias")[None]
        self._ones = np.ones(network.n_actions, np.float32)

    @classmethod
    def load(cls, path: Path, network: Network) -> Self:
        """Read a file in the form of :mod:`models.policy.form`.

        Raises:
            InvalidPolicyFileError: the file cannot be served.
        """
        return cls(read_weights(path, network), network)

    @np.errstate(over="ignore", invalid="ignore")
    def __call__(self, inputs: Floats, hidden: Floats, unavailable: NDArray[np.bool_]) -> Step:
        """Advance B rows by one step.

        Args:
            inputs: (B, width) as :class:`~models.policy.inputs.InputLayout` has them.
            hidden: (B, 128) hidden states before the step.
            unavailable: (B, n_actions) True for actions that the row's junction does not have.
        """
        if len(inputs) > _MAX_ROWS:
            parts = [slice(at, at + _MAX_ROWS) for at in range(0, len(inputs), _MAX_ROWS)]
            steps = [self(inputs[rows], hidden[rows], unavailable[rows]) for rows in parts]
            return Step(*map(np.concatenate, zip(*steps, strict=True)))
        features = np.dot(inputs, self._fc1) if self._agents is None else self._look_up(inputs)
        np.maximum(features, _ZERO, out=features)
        new_hidden = self._gru(features, hidden)
        logits: Floats = np.dot(new_hidden, self._fc2)
        logits += self._fc2_bias
        logits[unavailable] = -np.inf  # below any other, were they as low as -1e30
        actions = logits.argmax(axis=1)
        # softmax at the maximum: exp(max - max) over the sum
        logits -= np.maximum.reduce(logits, axis=1, keepdims=True)
        np.exp(logits, out=logits)
        confidences: Floats = np.dot(logits, self._ones)  # half the time of a sum over so few
        np.reciprocal(confidences, out=confidences)
        # What is not finite in a hidden state makes every logit so, and the maximum of those is
        # infinite or NaN: less itself it is NaN.
        return Step(actions, confidences, new_hidden, np.isfinite(confidences))

    def entropies(self, hidden: Floats, unavailable: NDArray[np.bool_]) -> Floats:
        """Return the entropy (B,) in nats of the distributions over actions, for metrics.

        Args:
            hidden, unavailable: as for ``probabilities``.
        """
        weights = self.probabilities(hidden, unavailable)
        surprises = np.zeros_like(weights)
        np.log(weights, out=surprises, where=weights > 0)
        entropies: Floats = -(weights * surprises).sum(axis=1)
        return entropies

    def logits(self, hidden: Floats, unavailable: NDArray[np.bool_]) -> Floats:
        """Return the logits (B, n_actions) of a step, -inf for actions that are not available.

        Args:
            hidden, unavailable: as for ``probabilities``.
        """
        logits: Floats = np.dot(hidden, self._fc2) + self._fc2_bias
        logits[unavailable] = -np.inf
        return logits

    def probabilities(self, hidden: Floats, unavailable: NDArray[np.bool_]) -> Floats:
        """Return the distributions (B, n_actions) that a step has drawn its maximum from.

        Args:
            hidden: (B, 128) finite hidden states after the step.
            unavailable: (B, n_actions) as for the step.
        """
        logits = self.logits(hidden, unavailable)
        logits -= logits.max(axis=1, keepdims=True)
        weights: Floats = np.exp(logits)
        weights /= weights.sum(axis=1, keepdims=True)
        return weights

    def _look_up(self, inputs: Floats) -> Floats:
        assert self._agents is not None
        features: Floats = np.dot(inputs[:, : self._max_obs], self._fc1)
        features += self._agents[inputs[:, self._max_obs].astype(np.intp)]
        return features

    def _gru(self, features: Floats, hidden: Floats) -> Floats:
        from_input, from_hidden = features @ self._ih, hidden @ self._hh
        divisors = from_input[:2]  # 1 / r and 1 / z
        divisors += from_hidden[:2]
        np.exp(divisors, out=divisors)
        divisors += _ONE
        candidate: Floats = from_hidden[2]
        candidate += self._hidden_bias
        candidate /= divisors[0]
        candidate += from_input[2]
        np.tanh(candidate, out=candidate)
        new_hidden: Floats = hidden - candidate
        new_hidden /= divisors[1]
        new_hidden += candidate
        return new_hidden


def _gates(weights: Floats) -> Floats:
    """Split (inputs, 384) into the gates (3, inputs, 128), with r and z negated."""
    gates = np.stack(np.split(weights, 3, axis=1))
    gates[:2] *= -1.0
    return gates
