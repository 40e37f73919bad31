"""Operations on simulation runs: list, end, fork, export and import them.

A run has the hidden states of its junctions. All changes of it are made by the authority while no
replica owns a state, so each lies before or after any step of the run. The file of a run is one of
safetensors: ``hidden`` (n, 128) and ``steps`` (n,), and in its metadata the n junctions. Rows of
``hidden`` are longer where detectors are diagnosed. A file of one setting can be restored in the
other: the diagnosis begins anew, or ends.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from safetensors import SafetensorError
from safetensors.numpy import load, save

from deployments.inference.errors import InferenceError, InvalidRunError, refusal_of
from deployments.inference.service import InferenceService, run_of
from deployments.stateful.protocol import Key, OutcomeUnknownError, RunSummary
from models.networks.network import Network
from models.policy.form import HIDDEN_DIM
from models.signals.diagnosis import are_memories, memory_size

MAX_LISTED = 1000
MAX_FILE = 16 * 1024 * 1024  # bytes: 30,000 junctions
MAX_STEP = 1 << 53  # the counter must not overflow; beyond it, JSON numbers are not exact

_TIMEOUT_S = 10.0
_FORM = "greenwave.run.1"

_NAMES = TypeAdapter(list[str])

T = TypeVar("T")


class RunInfo(BaseModel):
    """A run, as of the latest commits."""

    run: str
    steps: dict[str, int] = Field(description="Of each junction that has been stepped.")
    idle_seconds: float = Field(description="Since its last use.")
    owners: list[str] = Field(description="Replicas that own some of its hidden states.")


class RunList(BaseModel):
    """The runs that were used last, the latest first."""

    runs: list[RunInfo] = Field(max_length=MAX_LISTED)


class ForkRequest(BaseModel):
    model_config = ConfigDict(strict=True)

    run_id: str = Field(description="The new run; what it was before is cleared.")


class RunSteps(BaseModel):
    """What a run goes on from."""

    run: str
    steps: dict[str, int]


class UnknownRunError(InferenceError):
    status = 404

    def __init__(self, run: str) -> None:
        super().__init__(f"Run '{run}' has no hidden states")


class OtherPolicyError(InferenceError):
    status = 409

    def __init__(self, run: str) -> None:
        super().__init__(f"A canary answers one of the two runs; choose another name than '{run}'")


class InvalidRunFileError(InferenceError):
    status = 422


class Runs:
    """Operations on the runs of a service.

    Raises:
        UnconfirmedError: by each: it is unknown whether it was done.
    """

    def __init__(self, service: InferenceService) -> None:
        self._service = service

    async def list(self) -> RunList:
        summaries = await _confirmed(self._service.engine.runs(MAX_LISTED))
        return RunList(runs=[info for each in summaries if (info := self._info(each)).steps])

    async def find(self, run: str) -> RunInfo:
        """Return one of the runs that were used last.

        Raises:
            UnknownRunError: it has no states, or a thousand others were used since.
        """
        for each in (await self.list()).runs:
            if each.run == run:
                return each
        raise UnknownRunError(run)

    def _info(self, summary: RunSummary) -> RunInfo:
        namespace = self._service.policies.states_of(summary.run)
        suffix = Key("", "").in_namespace(namespace).entity
        junctions = self._service.network.junctions
        steps = {
            junction: n
            for entity, n in summary.steps.items()
            if n and entity.endswith(suffix)
            if (junction := entity.removesuffix(suffix)) in junctions
        }
        return RunInfo(
            run=summary.run, steps=steps, idle_seconds=summary.idle_s, owners=summary.owners
        )

    async def end(self, run: str) -> None:
        """Free the hidden states of a run; without any, this has no effect."""
        await _confirmed(self._service.engine.reset(run_of(run, None)))

    async def fork(self, run: str, fork: str) -> RunSteps:
        """Begin a run anew from the hidden states of another one.

        Raises:
            UnknownRunError, OtherPolicyError: nothing has changed.
        """
        if run_of(run, None) == run_of(fork, None):
            raise InvalidRunError("A run cannot be forked to itself")
        if self._service.policies.states_of(run) != self._service.policies.states_of(fork):
            raise OtherPolicyError(fork)
        return await self._write(fork, await self._read(run))

    async def export(self, run: str) -> bytes:
        """Return the file of a run."""
        states = await self._read(run_of(run, None))
        metadata = {
            "form": _FORM,
            "network": self._service.network.digest,
            "junctions": json.dumps(list(states)),
        }
        arrays: dict[str, NDArray[Any]] = {
            "hidden": np.array([state for _, state in states.values()], np.float32),
            "steps": np.array([step for step, _ in states.values()], np.int64),
        }
        return save(arrays, metadata)

    async def restore(self, run: str, file: bytes) -> RunSteps:
        """Begin a run anew from a file of this or another run.

        Raises:
            InvalidRunFileError: it is damaged, or of another network; nothing has changed.
        """
        states = _read_file(file, self._service.network, self._service.state_width)
        return await self._write(run_of(run, None), states)

    async def _read(self, run: str) -> dict[str, tuple[int, Any]]:
        """Return the steps and the state of each junction."""
        namespace = self._service.policies.states_of(run)
        copies = {each.key: each for each in await _confirmed(self._service.engine.read(run))}
        states = {}
        for junction in self._service.network.ids:
            copy = copies.get(Key(run, junction).in_namespace(namespace))
            if copy is not None and copy.version.step:
                states[junction] = copy.version.step, copy.state
        if not states:
            raise UnknownRunError(run)
        return states

    async def _write(self, run: str, states: dict[str, tuple[int, Any]]) -> RunSteps:
        namespace = self._service.policies.states_of(run)
        keyed = {
            Key(run, junction).in_namespace(namespace): state for junction, state in states.items()
        }
        await _confirmed(self._service.engine.write(run, keyed))
        return RunSteps(run=run, steps={junction: step for junction, (step, _) in states.items()})


async def _confirmed(work: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return await work
    except TimeoutError as error:
        raise refusal_of(OutcomeUnknownError()) from error
    except Exception as error:  # a StateError, or a defect
        raise refusal_of(error) from error


def _read_file(file: bytes, network: Network, width: int) -> dict[str, tuple[int, Any]]:
    try:
        arrays, metadata = load(file), _metadata_of(file)
        junctions = _NAMES.validate_json(metadata["junctions"])
        hidden, steps = arrays["hidden"], arrays["steps"]
    except (SafetensorError, KeyError, ValueError, TypeError):
        raise InvalidRunFileError("The body is not the file of a run") from None
    if metadata.get("form") != _FORM or metadata.get("network") != network.digest:
        raise InvalidRunFileError("The file is of a run on another network")
    n, n_lanes = len(junctions), max(each.n_lanes for each in network.junctions.values())
    if (
        len(arrays) != 2
        or hidden.shape not in ((n, HIDDEN_DIM), (n, HIDDEN_DIM + memory_size(n_lanes)))
        or hidden.dtype != np.float32
        or steps.shape != (n,)
        or steps.dtype != np.int64
        or not n
        or len(set(junctions)) < n
        or not set(junctions) <= set(network.ids)
        or not np.isfinite(hidden).all()
        or steps.min() < 1
        or steps.max() > MAX_STEP
        or not are_memories(hidden[:, HIDDEN_DIM:])
    ):
        raise InvalidRunFileError("The file of the run is damaged")
    states = np.zeros((n, width), np.float32)
    common = min(width, hidden.shape[1])
    states[:, :common] = hidden[:, :common]
    return {
        junction: (int(step), state)
        for junction, step, state in zip(junctions, steps, states, strict=True)
    }


def _metadata_of(file: bytes) -> dict[str, str]:
    end = 8 + int.from_bytes(file[:8], "little")
    metadata: dict[str, str] = json.loads(file[8:end])["__metadata__"]
    return metadata
