"""The policy as the agent of vector environments, with a run for each environment."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from greenwave.client.clients import Client
from greenwave.client.errors import (
    InvalidInputError,
    InvalidRequestError,
    UnavailableError,
    UnknownOutcomeError,
)
from greenwave.client.inputs import MAX_BATCH_ROWS, new_key
from greenwave.client.tensors import Array, Row

_Step = tuple[int, str, Row]  # an environment, a junction, and its observation
_Build = Callable[[Iterator[int]], Any]  # puts actions in the structure of the observations


class VectorPolicy:
    """Chooses the actions of many environments, each with separate hidden states.

    Observations are those of Gymnasium's vector environments or of PettingZoo's parallel ones. Use
    it from one thread.

    Args:
        n_environments: whose runs are named ``{run}-0``, ``{run}-1`` and so on.
        run: another name for each VectorPolicy that is used at the same time.
        junction: of environments whose observations do not name junctions.
    """

    def __init__(
        self, client: Client, n_environments: int, run: str, junction: str | None = None
    ) -> None:
        self._client = client
        self._runs = [f"{run}-{number}" for number in range(n_environments)]
        self._junction = junction
        self._starting = set(range(n_environments))

    def act(self, observations: Any, *, key: str | None = None) -> Any:
        """Return the actions for observations, in the same structure.

        Args:
            observations: an array with a row for each environment; or, by junction, such an array,
                as of a ``Dict`` space; or, for each environment, a mapping from junction to
                observation, as of PettingZoo. The last may leave out junctions.
            key: of an error, to repeat the steps with the same observations.

        Raises:
            UnknownOutcomeError: some steps were not made, or perhaps not; ``key`` repeats them.
        """
        steps, build = self._adapted(observations)
        return build(iter(self._act(steps, new_key() if key is None else key)))

    def reset(self, which: Sequence[bool] | Sequence[int] | Array | None = None) -> None:
        """Let environments begin from zeros with their next ``act``.

        Args:
            which: a truth value for each environment, or indices; None for all.
        """
        everything: Any = range(len(self._runs)) if which is None else which
        listed = [each.tolist() if hasattr(each, "tolist") else each for each in everything]
        if listed and isinstance(listed[0], bool):
            listed = [number for number, each in enumerate(self._checked(listed)) if each]
        if not set(listed) <= set(range(len(self._runs))):
            raise InvalidInputError(f"Environments are 0 to {len(self._runs) - 1}, not {which!r}")
        self._starting.update(listed)

    def _adapted(self, observed: Any) -> tuple[list[_Step], _Build]:
        """Return the steps for observations, and what builds their answer."""
        if isinstance(observed, Mapping):
            blocks = observed.items()
            return [
                (number, junction, row)
                for junction, block in blocks
                for number, row in enumerate(self._checked(block))
            ], lambda actions: {
                junction: _array(islice(actions, len(block)), block) for junction, block in blocks
            }
        if len(self._checked(observed)) and isinstance(observed[0], Mapping):
            return [
                (number, junction, row)
                for number, each in enumerate(observed)
                for junction, row in each.items()
            ], lambda actions: [{junction: next(actions) for junction in each} for each in observed]
        junction = self._junction
        if junction is None:
            raise InvalidInputError("Observations without junctions: VectorPolicy needs junction")
        steps = [(number, junction, row) for number, row in enumerate(observed)]
        return steps, lambda actions: _array(actions, observed)

    def _checked(self, values: Any) -> Any:
        if len(values) != len(self._runs):
            raise InvalidInputError(f"{len(values)} values for {len(self._runs)} environments")
        return values

    def _act(self, steps: list[_Step], key: str) -> list[int]:
        """Return an action for each step.

        An environment that begins is reset with its first row; the others follow in further calls.
        """
        starting = set(self._starting)
        begins: list[int] = []
        continues: list[int] = []
        for at, (number, _, _) in enumerate(steps):
            (begins if number in starting else continues).append(at)
            starting.discard(number)
        actions = [0] * len(steps)
        for chosen in (begins, continues):
            for first in range(0, len(chosen), MAX_BATCH_ROWS):
                part = chosen[first : first + MAX_BATCH_ROWS]
                done = self._infer([steps[at] for at in part], key, chosen is begins)
                for at, action in zip(part, done, strict=True):
                    actions[at] = action
        self._starting -= {number for number, _, _ in steps}
        return actions

    def _infer(self, steps: list[_Step], key: str, start: bool) -> Iterable[int]:
        numbers, junctions, rows = zip(*steps, strict=True)
        runs = [self._runs[number] for number in numbers]
        infer = self._client.inference.infer
        try:
            done = infer(rows, junctions, runs=runs, sequence_start=start, key=key)
        except UnavailableError as error:  # calls before it may have made steps
            raise _unknown(key, error.message, error.status, error.code) from error
        if not (failed := done.failed):
            return done.action
        row = next((row for row in failed if done.status[row] < 500), failed[0])
        status, code = done.status[row], done.code[row] or None
        message = (
            f"{len(failed)} of {len(rows)} steps failed, such as that of {junctions[row]} in the"
            f" run {runs[row]}"
        )
        if status < 500:
            raise InvalidRequestError(message, status=status, code=code)
        raise _unknown(key, message, status, code)


def _unknown(key: str, message: str, status: int | None, code: str | None) -> UnknownOutcomeError:
    error = UnknownOutcomeError(message, status=status, code=code)
    error.key = key
    return error


def _array(actions: Iterable[int], like: Any) -> Any:
    """Return actions as an array of NumPy where observations are one."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(like, numpy.ndarray):
        return numpy.array(list(actions))
    return list(actions)
