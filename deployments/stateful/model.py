"""What the engine asks of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from deployments.stateful.errors import StateError
from deployments.stateful.row import Array, Key

Output = tuple[Any, ...]
"""A model's output for one step."""


class Model(Protocol):
    """A recurrent model. A class that derives from this one inherits the last three methods.

    Attributes:
        output: data type of what is remembered of an output for a repeated request, with a name
            for each of its values: ``np.dtype([("action", "u1"), ("confidence", "f4")])``. Each
            state remembers 64 of them.
    """

    output: np.dtype[Any]

    def initial_state(self, key: Key) -> Array:
        """Return the state of a key before its first step, of the same type and shape for all."""

    def step(self, inputs: Any, states: Array) -> tuple[Sequence[Output | StateError], Array]:
        """Advance B states by one step each.

        Args:
            inputs: B of what the callers of :meth:`.batcher.Batcher.submit` passed, as a list; or
                what a caller of :meth:`.batcher.Batcher.submit_rows` passed, of B rows.
            states: (B, \\*shape), which the model must not write into.

        Returns:
            B outputs, and the new states (B, \\*shape). An error in place of an output fails that
            request, and leaves its state as it was.
        """

    def keep(self, outputs: Sequence[Output | StateError], rows: Sequence[int]) -> Array:
        """Return what is remembered of the outputs of some rows, as ``output`` has it."""
        n_values = len(self.output.names or ())
        return np.array([outputs[row][:n_values] for row in rows], self.output)  # type: ignore[index]

    def answer(self, kept: Output) -> Output:
        """Return the output of which this was remembered."""
        return kept

    def some(
        self, outputs: Sequence[Output | StateError], rows: Sequence[int]
    ) -> Sequence[Output | StateError]:
        """Return the outputs of some rows, for an observer of the steps."""
        return [outputs[row] for row in rows]
