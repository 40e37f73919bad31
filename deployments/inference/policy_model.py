"""The policy as a model of the engine: its inputs, outputs and hidden states."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from deployments.stateful.protocol import Key, StateError
from deployments.stateful.replica.held_states import Array
from models.networks.network import Network
from models.policy.form import HIDDEN_DIM
from models.policy.inputs import InputLayout
from models.policy.step import Floats, PolicyStep, Step

_LOWEST = np.finfo(np.float32).min  # of actions that the junction does not have; JSON has no -inf

Observed = tuple[int, Sequence[float] | Floats, bool]
"""The input of one step: a junction's agent index, at most ``max_obs`` finite values, and whether
the output has the logits."""


@dataclass(frozen=True, slots=True)
class ObservedRows:
    """The inputs of B steps as columns.

    Attributes:
        agents: B agent indices.
        observations: B of them, or an array (B, n).
        logits: whether the outputs have the logits.
    """

    agents: Sequence[int]
    observations: Sequence[Sequence[float] | Floats] | Floats
    logits: bool = False

    def __len__(self) -> int:
        return len(self.agents)

    def __getitem__(self, row: int) -> Observed:
        return self.agents[row], self.observations[row], self.logits

    def take(self, rows: Sequence[int]) -> ObservedRows:
        """Return the inputs of some rows."""
        observations = self.observations
        if isinstance(observations, np.ndarray):
            taken: Sequence[Sequence[float] | Floats] | Floats = observations[rows]
        else:
            taken = [observations[row] for row in rows]
        return ObservedRows([self.agents[row] for row in rows], taken, self.logits)


class NonFiniteStateError(StateError):
    """The step would leave the range of float32; the state is as it was."""

    def __init__(self) -> None:
        super().__init__("obs_data is so large that the hidden state would not be finite")


class Decisions(list[Any]):
    """The outputs of B rows, with what telemetry and shadows read.

    An output is (action, confidence), followed by the logits of all actions on request.

    Attributes:
        model: that made the step.
        agents: B agent indices.
        inputs: (B, width) as the policy saw them.
        step: what the policy returned.
        actions: B action indices.
        finite: B of them; a row that is not finite was refused.
    """

    model: PolicyModel
    agents: Sequence[int]
    inputs: Floats
    step: Step
    actions: list[int]
    finite: list[bool]


class PolicyModel:
    """Implements :class:`~deployments.stateful.replica.engine.Model` for a network's policy."""

    def __init__(self, policy: PolicyStep, network: Network) -> None:
        self.policy = policy
        self.unavailable = network.unavailable
        self._encode = InputLayout(network).encode

    @classmethod
    def load(cls, path: Path, network: Network) -> Self:
        """Read a policy file.

        Raises:
            InvalidPolicyFileError: the file cannot be served.
        """
        return cls(PolicyStep.load(path, network), network)

    def initial_state(self, key: Key) -> Array:
        return initial_state(key)

    def step(
        self, inputs: Sequence[Observed] | ObservedRows, states: Array
    ) -> tuple[Decisions, Array]:
        """Make a step of each row; see :class:`~deployments.stateful.replica.engine.Model`."""
        if isinstance(inputs, ObservedRows):
            agents: Sequence[int] = inputs.agents
            observations: Sequence[Sequence[float] | Floats] | Floats = inputs.observations
            explained: Sequence[int] = range(len(agents)) if inputs.logits else ()
        else:
            agents = [agent for agent, _, _ in inputs]
            observations = [observation for _, observation, _ in inputs]
            explained = [row for row, (_, _, logits) in enumerate(inputs) if logits]
        unavailable = self.unavailable[agents]
        encoded = self._encode(agents, observations)
        step = self.policy(encoded, states, unavailable)
        actions, finite = step.actions.tolist(), step.finite.tolist()
        decisions = Decisions(zip(actions, step.confidences.tolist(), strict=True))
        decisions.model, decisions.agents, decisions.inputs = self, agents, encoded
        decisions.step, decisions.actions, decisions.finite = step, actions, finite
        if explained:
            logits = np.maximum(self.policy.logits(step.hidden, unavailable), _LOWEST).tolist()
            for row in explained:
                decisions[row] = (*decisions[row], *logits[row])
        if not all(finite):
            for row in (row for row, is_finite in enumerate(finite) if not is_finite):
                decisions[row] = NonFiniteStateError()
        return decisions, step.hidden


def initial_state(key: Key) -> Array:
    return np.zeros(HIDDEN_DIM, np.float32)


def fingerprint_of(obs: list[float]) -> str:
    """Return a digest of an observation, the same in every process."""
    packed = struct.pack(f"<{len(obs)}d", *obs)
    return hashlib.blake2b(packed, digest_size=8).hexdigest()


def fingerprints_of(observations: Floats) -> list[str]:
    """Return digests of B observations (B, n), the same with and without zeros at the end.

    A repeated step may be in a batch that is padded to another width.
    """
    packed, size = observations.tobytes(), observations.itemsize * observations.shape[1]
    digest = partial(hashlib.blake2b, digest_size=8)
    return [
        digest(packed[row * size : (row + 1) * size].rstrip(b"\0")).hexdigest()
        for row in range(len(observations))
    ]
