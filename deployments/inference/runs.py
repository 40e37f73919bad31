"""Operations on simulation runs: list, end, fork, export and import them.

A run has the hidden states of its junctions. Each change is one transaction, so it is before or
after any step of the run. The file of a run is one of safetensors: ``hidden`` (n, 128) and
``steps`` (n,), and in its metadata the n junctions. Rows of ``hidden`` are longer where detectors
are diagnosed. A file of one setting can be restored in the other: the diagnosis begins anew, or
ends.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic_core import from_json
from safetensors import SafetensorError
from safetensors.numpy import load, save

from deployments.http.messages import is_name
from deployments.inference.errors import InferenceError, or_refusal
from deployments.inference.service import InferenceService, request_id_of, run_of
from deployments.stateful.engine import RunSummary
from models.networks.network import Network
from models.policy.form import HIDDEN_DIM
from models.signals.diagnosis import are_memories, memory_size

MAX_LISTED = 1000
MAX_FILE = 16 * 1024 * 1024  # bytes: 30,000 junctions
MAX_STEP = 1 << 53  # the counter must not overflow; beyond it, JSON numbers are not exact

_FORM = "greenwave.run.1"
_HEAD_BYTES, _HEAD_BYTES_OF_JUNCTION = 64 << 10, 100  # with more, it is not the file of a run
_NOT_A_FILE = "The body is not the file of a run"

_NAMES = TypeAdapter(list[str])


class RunInfo(BaseModel):
    """A run."""

    run: str
    steps: dict[str, int] = Field(description="Of each junction that has been stepped.")
    idle_seconds: float = Field(description="Since its last use.")


class RunList(BaseModel):
    """The runs that were used last, the latest first."""

    runs: list[RunInfo] = Field(max_length=MAX_LISTED)


class ForkRequest(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    run_id: str = Field(description="The new run; what it was before is cleared.")


class RunSteps(BaseModel):
    """What a run goes on from."""

    run: str
    steps: dict[str, int]


def _unknown(run: str) -> InferenceError:
    return InferenceError(404, f"Run '{run}' has no hidden states")


class Runs:
    """Operations on the runs of a service.

    An operation that was made with an idempotency key is not made again: it returns what it did.

    Raises:
        InferenceError: by each: nothing has changed, unless the code is ``outcome_unknown``.
    """

    def __init__(self, service: InferenceService) -> None:
        self._service = service

    async def list(self) -> RunList:
        """Return the runs that were used last."""
        summaries = await or_refusal(self._service.engine.runs(MAX_LISTED))
        return RunList(runs=[info for each in summaries if (info := self._info(each)).steps])

    async def find(self, run: str) -> RunInfo:
        """Return a run that has states."""
        found = await or_refusal(self._service.engine.find(run)) if is_name(run) else None
        info = None if found is None else self._info(found)
        if info is None or not info.steps:
            raise _unknown(run)
        return info

    def _info(self, summary: RunSummary) -> RunInfo:
        namespace = self._service.policies.variant_of(summary.run).states
        junctions = self._service.network.junctions
        steps = {name: n for name, n in summary.steps_of(namespace).items() if name in junctions}
        return RunInfo(run=summary.run, steps=steps, idle_seconds=summary.idle_s)

    async def end(self, run: str, key: str | None) -> None:
        """Free the hidden states of a run; without any, this has no effect."""
        await self._service.reset(run_of(run, None), request_id_of(key))

    async def fork(self, run: str, fork: str, key: str | None) -> RunSteps:
        """Begin a run anew from the hidden states of another one, of all policies."""
        if run_of(run, None) == run_of(fork, None):
            raise InferenceError(400, "A run cannot be forked to itself")
        namespace = self._service.policies.variant_of(run).states
        if namespace != self._service.policies.variant_of(fork).states:
            raise InferenceError(
                409, f"A canary answers one of the two runs; choose another name than '{fork}'"
            )
        work = self._service.engine.fork(run, fork, namespace, request_id_of(key))
        steps = await or_refusal(work)
        if not steps:
            raise _unknown(run)
        return RunSteps(run=fork, steps=steps)

    async def export(self, run: str) -> bytes:
        """Return the file of a run that has states."""
        namespace = self._service.policies.variant_of(run_of(run, None)).states
        found = await or_refusal(self._service.engine.read(run, namespace))
        junctions = [each for each in self._service.network.ids if each in found]
        if not junctions:
            raise _unknown(run)
        metadata = {
            "form": _FORM,
            "network": self._service.network.digest,
            "junctions": json.dumps(junctions),
        }
        arrays: dict[str, NDArray[Any]] = {
            "hidden": np.array([found[each][1] for each in junctions], np.float32),
            "steps": np.array([found[each][0] for each in junctions], np.int64),
        }
        return save(arrays, metadata)

    async def restore(self, run: str, file: bytes, key: str | None) -> RunSteps:
        """Begin a run anew from a file of this or another run."""
        service, request_id = self._service, request_id_of(key)
        namespace = service.policies.variant_of(run_of(run, None)).states
        # not in the event loop: the file may be large
        states = await asyncio.to_thread(_read_file, file, service.network, service.state_width)
        steps = await or_refusal(service.engine.write(run, states, namespace, request_id))
        return RunSteps(run=run, steps=steps)


def _read_file(file: bytes, network: Network, width: int) -> dict[str, tuple[int, Any]]:
    metadata = _metadata_of(file, network.n_agents)
    try:
        junctions = _NAMES.validate_json(metadata["junctions"])
        arrays = load(file)
        hidden, steps = arrays["hidden"], arrays["steps"]
    except (SafetensorError, KeyError, ValueError, TypeError):
        raise InferenceError(422, _NOT_A_FILE) from None
    if metadata.get("form") != _FORM or metadata.get("network") != network.digest:
        raise InferenceError(422, "The file is of a run on another network")
    n, n_lanes = len(junctions), max(each.n_lanes for each in network.junctions.values())
    if (
        hidden.shape not in ((n, HIDDEN_DIM), (n, HIDDEN_DIM + memory_size(n_lanes)))
        or hidden.dtype != np.float32
        or steps.shape != (n,)
        or steps.dtype != np.int64
        or not n
        or len(set(junctions)) < n
        or not set(junctions) <= set(network.ids)
        or steps.min() < 1
        or steps.max() > MAX_STEP
        or not are_memories(hidden[:, HIDDEN_DIM:])
    ):
        raise InferenceError(422, "The file of the run is damaged")
    # a GRU's state is a mean of values of tanh
    if not (np.abs(hidden[:, :HIDDEN_DIM]) <= 1).all():
        raise InferenceError(422, "The file has a hidden state with a value outside [-1, 1]")
    states = np.zeros((n, width), np.float32)
    common = min(width, hidden.shape[1])
    states[:, :common] = hidden[:, :common]
    return {
        junction: (int(step), state)
        for junction, step, state in zip(junctions, steps, states, strict=True)
    }


def _metadata_of(file: bytes, n_junctions: int) -> dict[str, Any]:
    """Return the metadata of a file, of which only the head is read.

    Raises:
        InferenceError: it is not the file of a run.
    """
    size = int.from_bytes(file[:8], "little")
    if size > _HEAD_BYTES + _HEAD_BYTES_OF_JUNCTION * n_junctions:
        raise InferenceError(422, _NOT_A_FILE)
    try:
        head = from_json(file[8 : 8 + size])
    except ValueError:
        head = None
    if not isinstance(head, dict) or set(head) != {"__metadata__", "hidden", "steps"}:
        raise InferenceError(422, _NOT_A_FILE)
    metadata = head["__metadata__"]
    return metadata if isinstance(metadata, dict) else {}
