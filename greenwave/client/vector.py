"""The policy as the agent of vector environments, with a run for each environment."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from greenwave.client.blocking import Client
from greenwave.client.errors import (
    InvalidInputError,
    InvalidRequestError,
    UnavailableError,
    UnknownOutcomeError,
)
from greenwave.client.inputs import MAX_BATCH_ROWS, new_key
from greenwave.client.tensors import Array, Row

_Place = tuple[int, str]  # an environment and a junction


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
        key = new_key() if key is None else key
        if isinstance(observations, Mapping):
            numbers = range(len(self._runs))
            places = [(number, junction) for junction in observations for number in numbers]
            rows = [row for block in observations.values() for row in self._checked(block)]
            actions = iter(self._step(places, rows, key))
            return {
                junction: _array([next(actions) for _ in block], block)
                for junction, block in observations.items()
            }
        self._checked(observations)
        if len(observations) and isinstance(observations[0], Mapping):
            places = [
                (number, junction)
                for number, observed in enumerate(observations)
                for junction in observed
            ]
            rows = [row for observed in observations for row in observed.values()]
            actions = iter(self._step(places, rows, key))
            return [{junction: next(actions) for junction in observed} for observed in observations]
        if self._junction is None:
            raise InvalidInputError("Observations without junctions: VectorPolicy needs junction")
        places = [(number, self._junction) for number in range(len(observations))]
        return _array(self._step(places, list(observations), key), observations)

    def reset(self, which: Sequence[bool] | Sequence[int] | Array | None = None) -> None:
        """Let environments begin from zeros with their next ``act``.

        Args:
            which: a truth value for each environment, or indices; None for all.
        """
        if which is None:
            self._starting.update(range(len(self._runs)))
            return
        given: Any = which
        listed = [each.tolist() if hasattr(each, "tolist") else each for each in given]
        if listed and isinstance(listed[0], bool):
            self._checked(listed)
            listed = [number for number, each in enumerate(listed) if each]
        if not set(listed) <= set(range(len(self._runs))):
            raise InvalidInputError(f"Environments are 0 to {len(self._runs) - 1}, not {which!r}")
        self._starting.update(listed)

    def _checked(self, values: Any) -> Any:
        if len(values) != len(self._runs):
            raise InvalidInputError(f"{len(values)} values for {len(self._runs)} environments")
        return values

    def _step(self, places: list[_Place], rows: list[Row], key: str) -> list[int]:
        """Return an action for each row.

        An environment that begins is reset with its first row; the others follow in further calls.
        """
        starting = set(self._starting)
        starts: list[int] = []
        continues: list[int] = []
        for at, (number, _) in enumerate(places):
            (starts if number in starting else continues).append(at)
            starting.discard(number)
        actions = [0] * len(rows)
        for chosen, start in ((starts, True), (continues, False)):
            for first in range(0, len(chosen), MAX_BATCH_ROWS):
                part = chosen[first : first + MAX_BATCH_ROWS]
                done = self._infer(
                    [places[at] for at in part], [rows[at] for at in part], key, start
                )
                for at, action in zip(part, done, strict=True):
                    actions[at] = action
        self._starting -= {number for number, _ in places}
        return actions

    def _infer(self, places: list[_Place], rows: list[Row], key: str, start: bool) -> Iterable[int]:
        runs = [self._runs[number] for number, _ in places]
        junctions = [junction for _, junction in places]
        try:
            done = self._client.inference.infer(
                rows, junctions, runs=runs, sequence_start=start, key=key
            )
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
