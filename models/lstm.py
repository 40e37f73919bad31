"""The last hidden state of an LSTM in NumPy, as the forecasts are served: without PyTorch.

Steps of so small a network cost less here than an eager call of PyTorch's, and a process without
PyTorch starts two seconds sooner and is smaller by some 200 MB.

Source: Hochreiter and Schmidhuber, 1997, in the form of ``torch.nn.LSTM`` (gate order i, f, g, o)::

    i, f, o = sigmoid(W x + V h + b), each with separate weights
    g = tanh(W x + V h + b)
    c' = f * c + i * g
    h' = o * tanh(c')
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from models.artifacts import Tensors

Floats = NDArray[np.float32]

_PREFIX = "lstm."
_N_GATES = 4
_HALF = np.full((), 0.5, np.float32)  # an array without axes: the short way for operands


class Lstm:
    """One layer that starts from zeros.

    sigmoid(x) is (1 + tanh(x / 2)) / 2: with halved weights of i, f and o, one tanh and one
    addition serve all gates, which are then twice what they should be. That is undone once for the
    cell; the hidden state stays doubled, and its weights are halved once more.
    """

    def __init__(self, tensors: Tensors) -> None:
        n = tensors[_PREFIX + "weight_hh_l0"].shape[1]
        self._offset = np.ones(_N_GATES * n, np.float32)
        self._offset[2 * n : 3 * n] = 0.0
        slope = np.where(self._offset == 1.0, 0.5, 1.0).astype(np.float32)
        self._input = np.ascontiguousarray(tensors[_PREFIX + "weight_ih_l0"].T * slope)
        self._recurrent = np.ascontiguousarray(tensors[_PREFIX + "weight_hh_l0"].T * slope / 2)
        self._bias = (tensors[_PREFIX + "bias_ih_l0"] + tensors[_PREFIX + "bias_hh_l0"]) * slope

    def __call__(self, sequences: Floats) -> Floats:
        """Return (B, hidden) after (B, T, features), oldest first."""
        n_rows, n_steps, n_features = sequences.shape
        n = len(self._recurrent)
        rows = sequences.transpose(1, 0, 2).reshape(-1, n_features)  # a product of matrices is fast
        from_input = rows @ self._input
        from_input += self._bias  # in place: fresh memory costs more than the sum
        from_input = from_input.reshape(n_steps, n_rows, -1)
        gates = np.empty((n_rows, _N_GATES * n), np.float32)
        i, f, g, o = (gates[:, k * n : (k + 1) * n] for k in range(_N_GATES))
        cell, doubled = np.zeros((2, n_rows, n), np.float32)
        for inputs in from_input:  # every operation into memory that is there
            np.dot(doubled, self._recurrent, gates)
            np.add(gates, inputs, gates)
            np.tanh(gates, gates)
            np.add(gates, self._offset, gates)
            np.multiply(cell, f, cell)
            np.multiply(i, g, i)
            np.add(cell, i, cell)
            np.multiply(cell, _HALF, cell)
            np.tanh(cell, doubled)
            np.multiply(doubled, o, doubled)
        return doubled * _HALF


def shapes_of_lstm(n_features: int, n_hidden: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor of the layer, named as PyTorch names them."""
    return {
        _PREFIX + "weight_ih_l0": (_N_GATES * n_hidden, n_features),
        _PREFIX + "weight_hh_l0": (_N_GATES * n_hidden, n_hidden),
        _PREFIX + "bias_ih_l0": (_N_GATES * n_hidden,),
        _PREFIX + "bias_hh_l0": (_N_GATES * n_hidden,),
    }
