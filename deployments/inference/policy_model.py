"""The policy as a model of the engine: its inputs, outputs and hidden states.

A state is the GRU's, followed by what the diagnosis of the junction's detectors remembers, if it is
on. So both are kept, moved, forked and reset together, and a repeated request changes neither.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import mul
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from deployments.stateful.errors import StateError
from deployments.stateful.model import Model, Output
from deployments.stateful.row import Array, Key
from models.networks.network import Network
from models.policy.form import HIDDEN_DIM
from models.policy.inputs import InputLayout
from models.policy.step import Floats, PolicyStep, Step
from models.policy.training_record import Counts, read_record
from models.signals.diagnosis import JunctionDiagnosis, read_diagnoses

_LOWEST = np.finfo(np.float32).min  # of actions that the junction does not have; JSON has no -inf

_UINT64 = 2**64 - 1

Observed = tuple[int, Sequence[float]]
"""The input of one step: a junction's agent index, and at most ``max_obs`` finite values."""


@dataclass(frozen=True, slots=True)
class ObservedRows:
    """The inputs of B steps as columns.

    Attributes:
        agents: B agent indices.
        observations: (B, max_obs), with zeros at the end of shorter ones.
        logits: whether the outputs have the logits.
    """

    agents: Sequence[int]
    observations: Floats
    logits: bool = False

    def join(self, parts: Sequence[tuple[ObservedRows, Sequence[int]]]) -> ObservedRows:
        """Return the inputs of some rows of several calls; with logits if one asks for them."""
        agents: list[int] = []
        observations: list[Floats] = []
        for inputs, rows in parts:
            if isinstance(rows, range):
                some = slice(rows.start, rows.stop)
                agents += inputs.agents[some]
                observations.append(inputs.observations[some])
            else:
                agents += [inputs.agents[row] for row in rows]
                observations.append(inputs.observations[rows])
        logits = any(inputs.logits for inputs, _ in parts)
        return ObservedRows(agents, np.concatenate(observations), logits)


class NonFiniteStateError(StateError):
    """The step would leave the range of float32; the state is as it was."""

    def __init__(self) -> None:
        super().__init__("obs_data is so large that the hidden state would not be finite")


class Decisions(list[Any]):
    """The outputs of B rows, with what telemetry and shadows read.

    An output is (action, confidence). More follows if detectors have failed, or the logits were
    asked for: the faults of the lanes' detectors, a digit for each, which is 0 or a place in
    :data:`~models.signals.diagnosis.FAULTS` from 1 on, or ``""``; and the logits of all actions,
    which a state does not remember.

    Attributes:
        agents: B agent indices.
        inputs: (B, width) as the policy saw them.
        faults: by row, of the junctions that have some.
        step: what the policy returned.
        actions: B action indices.
        finite: B of them; a row that is not finite was refused.
    """

    agents: Sequence[int]
    inputs: Floats
    faults: dict[int, list[int]]
    step: Step
    actions: list[int]
    finite: list[bool]


class PolicyModel(Model):
    """A network's policy.

    Args:
        diagnoses: of the junctions' detectors, by agent index; None if they are not diagnosed.
        counts: the vehicles of the observations.
    """

    def __init__(
        self,
        policy: PolicyStep,
        network: Network,
        diagnoses: Sequence[JunctionDiagnosis] | None = None,
        counts: Counts = "standing",
    ) -> None:
        self.policy = policy
        self.counts = counts
        self._diagnoses = diagnoses
        self._width = state_width(diagnoses)
        self.output = output_form(network, diagnoses)
        self._sizes = network.obs_sizes.tolist()
        self.unavailable = network.unavailable
        self._encode = InputLayout(network).encode

    @classmethod
    def load(
        cls, path: Path, network: Network, diagnoses: Sequence[JunctionDiagnosis] | None = None
    ) -> Self:
        """Read a policy file, and the record beside it.

        Raises:
            InvalidPolicyFileError: the file cannot be served.
        """
        policy, record = PolicyStep.load(path, network), read_record(path)
        return cls(policy, network, diagnoses, record.counts)

    def initial_state(self, key: Key) -> Array:
        return np.zeros(self._width, np.float32)

    def step(
        self, inputs: Sequence[Observed] | ObservedRows, states: Array
    ) -> tuple[Decisions, Array]:
        if isinstance(inputs, ObservedRows):
            agents: Sequence[int] = inputs.agents
            observations: Sequence[Sequence[float]] | Floats = inputs.observations
        else:
            agents, observations = map(list, zip(*inputs, strict=True))
        unavailable = self.unavailable.take(agents, axis=0)
        encoded = self._encode(agents, observations)
        memories, faults = self._diagnose(agents, encoded, states)
        step = self.policy(encoded, states[:, :HIDDEN_DIM], unavailable)
        actions, finite = step.actions.tolist(), step.finite.tolist()
        decisions = Decisions(zip(actions, step.confidences.tolist(), strict=True))
        decisions.agents, decisions.inputs, decisions.faults = agents, encoded, faults
        for row, found in faults.items():
            decisions[row] = (*decisions[row], "".join(map(str, found)))
        decisions.step, decisions.actions, decisions.finite = step, actions, finite
        if isinstance(inputs, ObservedRows) and inputs.logits:
            for row, logits in enumerate(self._logits(step.hidden, unavailable)):
                decisions[row] = (*decisions[row][:2], faults_of(decisions[row]), *logits)
        if not all(finite):
            for row in (row for row, is_finite in enumerate(finite) if not is_finite):
                decisions[row] = NonFiniteStateError()
        if memories is None:
            return decisions, step.hidden
        return decisions, np.concatenate([step.hidden, memories], axis=1)

    def keep(self, outputs: Any, rows: Sequence[int]) -> Array:
        kept = np.zeros(len(rows), self.output)
        some = slice(rows.start, rows.stop) if isinstance(rows, range) else list(rows)
        kept["action"] = outputs.step.actions[some]
        kept["confidence"] = outputs.step.confidences[some]
        if outputs.faults:
            kept["faults"] = [faults_of(outputs[row]) for row in rows]
        return kept

    def answer(self, kept: Output) -> Output:
        if len(kept) == 2:
            return kept
        action, confidence, faults = kept
        return (action, confidence, faults.decode()) if faults else (action, confidence)

    def some(self, outputs: Any, rows: Sequence[int]) -> Decisions:
        made = Decisions([outputs[row] for row in rows])
        made.agents, made.inputs = [outputs.agents[row] for row in rows], outputs.inputs[rows]
        made.faults = {
            at: outputs.faults[row] for at, row in enumerate(rows) if row in outputs.faults
        }
        made.step = Step(*(column[rows] for column in outputs.step))
        made.actions, made.finite = made.step.actions.tolist(), made.step.finite.tolist()
        return made

    def _logits(self, hidden: Floats, unavailable: NDArray[np.bool_]) -> list[list[float]]:
        logits = np.maximum(self.policy.logits(hidden, unavailable), _LOWEST)
        return logits.tolist()  # type: ignore[no-any-return]

    def _diagnose(
        self, agents: Sequence[int], encoded: Floats, states: Array
    ) -> tuple[Floats | None, dict[int, list[int]]]:
        """Replace what failed detectors read in the inputs (B, width).

        Returns:
            What is remembered, (B, width less 128), and the faults by row; None and no faults while
            detectors are not diagnosed.
        """
        faults: dict[int, list[int]] = {}
        if self._diagnoses is None:
            return None, faults
        memories = np.zeros((len(agents), self._width - HIDDEN_DIM), np.float32)
        remembered = states[:, HIDDEN_DIM:].tolist()
        for row, agent in enumerate(agents):
            diagnosis, size = self._diagnoses[agent], self._sizes[agent]
            # of float32, as the memory is: otherwise no reading would equal the one before
            observed = encoded[row, :size].tolist()
            made = diagnosis(remembered[row][: diagnosis.size], observed)
            memories[row, : diagnosis.size] = made.memory
            encoded[row, :size] = made.observation
            if any(made.faults):
                faults[row] = made.faults
        return memories, faults


def faults_of(output: Output) -> str:
    """Return the faults of the lanes' detectors, a digit for each; "" if none has failed."""
    return output[2] if len(output) > 2 else ""


def diagnoses_of(network: Network, wanted: bool) -> list[JunctionDiagnosis] | None:
    """Return what diagnoses the junctions' detectors, None if it is not wanted.

    Raises:
        ValueError: the network file does not say when the lanes are green.
    """
    return read_diagnoses(network) if wanted else None


def state_width(diagnoses: Sequence[JunctionDiagnosis] | None) -> int:
    """Return the numbers in a state."""
    return HIDDEN_DIM + max((each.size for each in diagnoses or ()), default=0)


def output_form(
    network: Network, diagnoses: Sequence[JunctionDiagnosis] | None = None
) -> np.dtype[Any]:
    """Return the data type of what a state remembers of an output."""
    fields: list[tuple[str, str]] = [("action", "u1"), ("confidence", "f4")]
    if diagnoses is not None:
        n_lanes = max(each.n_lanes for each in network.junctions.values())
        fields.append(("faults", f"S{n_lanes}"))
    return np.dtype(fields)


def fingerprint_of(obs: Sequence[float]) -> int:
    """Return the digest of an observation, as :func:`fingerprints_of`, in less time."""
    bits: tuple[int, ...] = struct.unpack(f"<{len(obs)}I", struct.pack(f"<{len(obs)}f", *obs))
    digest: int = sum(map(mul, bits, _factors(len(obs)))) & _UINT64
    return digest >> 32


def fingerprints_of(observations: Floats) -> NDArray[np.uint32]:
    """Return digests of B observations (B, n), the same with and without zeros at the end.

    A repeated step may be padded to another width, or come by another route. The digest is a
    multilinear hash (Carter and Wegman, "Universal classes of hash functions", 1979) with
    multipliers from SplitMix64 (Steele, Lea and Flood, 2014): it has to find mistakes, not attacks.
    It is the upper half of 64 bits: on the lower one, the sign and exponent of a value have little
    influence.
    """
    bits = np.ascontiguousarray(observations, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits @ _multipliers(bits.shape[1])) >> np.uint64(32)).astype(np.uint32)


@lru_cache
def _factors(n: int) -> list[int]:
    factors: list[int] = _multipliers(n).tolist()
    return factors


@lru_cache
def _multipliers(n: int) -> NDArray[np.uint64]:
    """Return n odd numbers, the same in every process, and of a smaller n the first ones."""
    state = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    return (state ^ (state >> np.uint64(31))) | np.uint64(1)
