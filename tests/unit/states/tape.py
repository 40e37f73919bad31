"""A model whose states tell their history: each is the numbers of its latest inputs."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deployments.stateful.calls import Keys, RowOutcomes, Rows, ids_of
from deployments.stateful.errors import StateError
from deployments.stateful.model import Model, Output
from deployments.stateful.row import Array, Key, RowForm

LENGTH = 8
RAISES = 0xFFFFFFFF  # as an input, it raises an error


class RefusedError(StateError):
    """The model does not step this input."""


class Tape(Model):
    """Appends its input to the state, whose latest numbers are the output.

    Args:
        refused: the model refuses the multiples of this number; 0 for none.

    Attributes:
        n_batches: number of batches that it has stepped.
    """

    output = np.dtype([(f"number_{at}", "<u4") for at in range(LENGTH)])

    def __init__(self, refused: int = 0) -> None:
        self.refused = refused
        self.n_batches = 0

    def initial_state(self, key: Key) -> Array:
        state = np.zeros(LENGTH, "<u4")
        state[-1] = beginning(key)[-1]
        return state

    def step(self, inputs: Any, states: Array) -> tuple[Sequence[Output | StateError], Array]:
        self.n_batches += 1
        numbers = np.array(inputs, "<u4")
        assert len(numbers) == len(states)
        if RAISES in numbers:
            raise RuntimeError("The model fails")
        after = np.concatenate([states[:, 1:], numbers[:, None]], axis=1)
        outputs: list[Any] = [tuple(row) for row in after.tolist()]
        if self.refused:
            for row in np.flatnonzero(numbers % self.refused == 0):
                outputs[row] = RefusedError()
        return outputs, after


FORM = RowForm(np.dtype(("<u4", LENGTH)), Tape.output)


def beginning(key: Key) -> tuple[int, ...]:
    """Return the tape of a state before its first step, which differs from those of other keys."""
    return (0,) * (LENGTH - 1) + (1 << 31 | zlib.crc32("/".join(key).encode()) >> 1,)


def print_of(number: int) -> int:
    return number * 2654435761 & 0xFFFFFFFF


@dataclass
class Numbers:
    """Implements :class:`deployments.stateful.calls.Inputs`."""

    numbers: NDArray[np.uint32]

    def join(self, parts: Sequence[tuple[Any, Sequence[int]]]) -> NDArray[np.uint32]:
        return np.concatenate([part.numbers[list(rows)] for part, rows in parts])


def rows_of(
    keys: Sequence[Key],
    numbers: Sequence[int],
    request_ids: Sequence[str | None] | None = None,
    continues: bool = False,
) -> Rows:
    """Return a call of B steps."""
    ids = prints = None
    if request_ids is not None and any(request_ids):
        ids = ids_of(request_ids)
        prints = np.array([print_of(number) for number in numbers], np.uint32)
    return Rows(Keys(keys), Numbers(np.array(numbers, np.uint32)), ids, prints, continues)


async def answers_of(outcomes: RowOutcomes) -> list[Any]:
    """Return the results and errors of the rows of a call."""
    found = await outcomes.all()
    return [found.row(row) for row in range(len(found.steps))]
