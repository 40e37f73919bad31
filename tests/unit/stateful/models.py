"""A small recurrent model whose outputs show all inputs of a state, in their order."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from deployments.stateful.protocol import Key, Output, StateError
from deployments.stateful.replica.queues import StepResult
from deployments.stateful.replica.slab import Array

_PRIME = 2**31 - 1


class Numbers(list[int]):
    """Inputs of rows."""

    def join(self, parts: Sequence[tuple[Numbers, Sequence[int]]]) -> Numbers:
        return Numbers(numbers[row] for numbers, rows in parts for row in rows)


class UnfitInputError(StateError):
    """The model makes no step with this input."""


class FoldModel:
    """Folds numbers into one. A negative number is refused.

    Args:
        factor: another one makes another model with states of the same form.
    """

    def __init__(self, factor: int = 31) -> None:
        self.factor = factor

    def initial_state(self, key: Key) -> Array:
        return np.array([zlib.crc32(key.entity.encode()), 0], np.int64)

    def step(self, inputs: Sequence[int], states: Array) -> tuple[list[Output | StateError], Array]:
        folded = (states[:, 0] * self.factor + np.array(inputs, np.int64)) % _PRIME
        new = np.stack([folded, states[:, 1] + 1], axis=1)
        outputs: list[Output | StateError] = [(int(value),) for value in folded]
        for row, value in enumerate(inputs):
            if value < 0:
                outputs[row] = UnfitInputError("a negative number")
        return outputs, new

    def assert_replays(self, key: Key, responded: Sequence[tuple[int, StepResult]]) -> None:
        """Assert that the results are those of one run, each input once."""
        in_order = sorted(responded, key=lambda each: each[1].step)
        steps = [result.step for _, result in in_order]
        assert steps == list(range(1, len(responded) + 1))
        state = self.initial_state(key)[None]
        for value, result in in_order:
            outputs, state = self.step([value], state)
            assert [result.output] == outputs


MODEL = FoldModel()
ENTITIES = ("300839359", "265580972", "8541180897", "joinedS_265580996_300839357", "gneJ143")
