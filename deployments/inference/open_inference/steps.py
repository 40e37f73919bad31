"""What a request of the protocol asks the policy for: a step for each row of its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from deployments.http.messages import DEFAULT_RUN, NOT_A_KEY, is_name
from deployments.inference.errors import InferenceError, too_many_keys, unknown_junction
from deployments.inference.open_inference.messages import InferRequest, InvalidTensorError, Tensor
from deployments.inference.policy_model import ObservedRows, fingerprints_of
from deployments.inference.service import keys_of, run_of
from deployments.stateful.calls import Rows, ids_of
from deployments.stateful.row import RECEIPTS, numbered_ids
from models.networks.network import Network
from models.policy.step import Floats

MAX_ROWS = 4096
INPUTS = {
    "observation": ("FP32", [-1, -1]),
    "junction": ("BYTES", [-1]),
    "agent_index": ("INT32", [-1]),
    "run": ("BYTES", [-1]),
    "request_id": ("BYTES", [-1]),
}
_ALSO = {"run": "UINT64"}


class Sequences(NamedTuple):
    """The steps of one request.

    Attributes:
        starts, ends: whether the runs are reset before the first step, and after the last one.
    """

    steps: Rows
    starts: bool
    ends: bool

    @property
    def rows(self) -> dict[str, list[int]]:
        """Return the rows of each run."""
        rows: dict[str, list[int]] = {}
        for row, key in enumerate(self.steps.keys):
            rows.setdefault(key.run, []).append(row)
        return rows


class Reader:
    """Reads the inputs of a network's policy.

    Raises:
        InferenceError: by ``read``; nothing was stepped.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._ids = network.ids
        self._agents = {name.encode(): agent for agent, name in enumerate(network.ids)}

    def read(
        self,
        request: InferRequest,
        inputs: Mapping[str, Tensor],
        run: str | None = None,
        key: str | None = None,
    ) -> Sequences:
        """Return the steps that a request asks for.

        Args:
            run: of the rows, if the request names none.
            key: idempotency key of the request; row N without one has the key ``KEY.N``.
        """
        observations = self._observations(inputs)
        n_rows = len(observations)
        for name, tensor in inputs.items():
            _check_form(name, tensor, n_rows)
        sequence = _sequence_of(request)
        starts, ends = _flag(request, "sequence_start"), _flag(request, "sequence_end")
        if (starts or ends) and sequence is None and "run" not in inputs:
            raise InvalidTensorError(
                "sequence_start and sequence_end need a sequence_id, or the input 'run'"
            )
        agents = self._agents_of(inputs)
        runs = _runs_of(inputs.get("run"), sequence, run, n_rows)
        keys = keys_of(runs, tuple(map(self._ids.__getitem__, agents)))
        ids = prints = None
        if "request_id" in inputs:
            ids = ids_of(_request_ids_of(inputs["request_id"]))
        elif key is not None:
            ids = numbered_ids(key, n_rows)
        if ids is not None:
            prints = fingerprints_of(observations)
            if n_rows > RECEIPTS and keys.most_of_one > RECEIPTS:
                raise too_many_keys()
        logits = any(each.name == "logits" for each in request.outputs or ())
        observed = ObservedRows(agents, observations, logits)
        continues = sequence is not None and not starts
        steps = Rows(keys, observed, ids, prints, continues)
        return Sequences(steps, starts, ends)

    def _observations(self, inputs: Mapping[str, Tensor]) -> Floats:
        tensor = inputs.get("observation")
        if tensor is None:
            raise InvalidTensorError("The input 'observation' is missing")
        if tensor.datatype != "FP32" or len(tensor.shape) != 2:
            raise InvalidTensorError("'observation' is FP32, with a row for each step")
        n_rows, n_values = tensor.shape
        if not 1 <= n_rows <= MAX_ROWS:
            raise InvalidTensorError(f"'observation' has {n_rows} rows, expected 1 to {MAX_ROWS}")
        if n_values > self._network.max_obs:
            raise InvalidTensorError(
                f"'observation' has {n_values} values in a row, expected <= {self._network.max_obs}"
            )
        observations: Floats = np.asarray(tensor.values).reshape(n_rows, n_values)
        finite = np.isfinite(observations).all(axis=1)
        if not finite.all():
            raise InvalidTensorError(f"'observation' is not finite in row {finite.argmin()}")
        if n_values < self._network.max_obs:
            padded = np.zeros((n_rows, self._network.max_obs), np.float32)
            padded[:, :n_values] = observations
            return padded
        return observations

    def _agents_of(self, inputs: Mapping[str, Tensor]) -> list[int]:
        named, indexed = inputs.get("junction"), inputs.get("agent_index")
        if (named is None) == (indexed is None):
            raise InvalidTensorError("One of the inputs 'junction' and 'agent_index' is needed")
        if indexed is not None:
            indices: list[int] = np.asarray(indexed.values).tolist()
            if min(indices) < 0 or max(indices) >= len(self._ids):
                raise InvalidTensorError(
                    f"An agent_index is 0 to {len(self._ids) - 1} in this network"
                )
            return indices
        assert named is not None
        try:
            return [self._agents[name] for name in named.values]
        except KeyError as unknown:
            name = unknown.args[0].decode(errors="replace")
            raise unknown_junction(name, self._network) from None


def _check_form(name: str, tensor: Tensor, n_rows: int) -> None:
    if name not in INPUTS:
        raise InvalidTensorError(f"There is no input {name[:50]!r}; there are {', '.join(INPUTS)}")
    datatype, _ = INPUTS[name]
    if tensor.datatype not in (datatype, _ALSO.get(name)):
        raise InvalidTensorError(f"{name!r} is {datatype}, not {tensor.datatype}")
    if name != "observation" and tensor.shape not in ((n_rows,), (n_rows, 1)):
        raise InvalidTensorError(
            f"{name!r} has the shape {list(tensor.shape)}, and 'observation' {n_rows} rows"
        )


def _sequence_of(request: InferRequest) -> str | None:
    """Return the run of a sequence; None for 0 and "", which Triton reads as no sequence."""
    sequence = request.parameters.get("sequence_id", 0)
    if isinstance(sequence, bool) or not isinstance(sequence, int | str):
        raise InvalidTensorError("sequence_id is neither a number nor a name")
    if not sequence:
        return None
    return _run(str(sequence).encode())


def _flag(request: InferRequest, name: str) -> bool:
    value = request.parameters.get(name, False)
    if not isinstance(value, bool):
        raise InvalidTensorError(f"{name} is neither true nor false")
    return value


def _runs_of(
    named: Tensor | None, sequence: str | None, run: str | None, n_rows: int
) -> tuple[str, ...]:
    if named is None:
        return (sequence or run or DEFAULT_RUN,) * n_rows
    if sequence is not None:
        raise InvalidTensorError("Both sequence_id and the input 'run' name runs")
    if isinstance(named.values, np.ndarray):
        return tuple(map(str, named.values.tolist()))
    return _runs(tuple(named.values))


@lru_cache(maxsize=32)
def _runs(names: tuple[bytes, ...]) -> tuple[str, ...]:
    return tuple(map(_run, names))


@lru_cache(maxsize=16_384)
def _run(name: bytes) -> str:
    return run_of(name.decode(errors="replace"), None)


def _request_ids_of(given: Tensor) -> list[str]:
    keys = [each.decode(errors="replace") for each in given.values]
    if not all(map(is_name, keys)):
        raise InferenceError(400, NOT_A_KEY)
    return keys
