"""The policy as a model of the engine: its inputs, outputs and hidden states."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np

from deployments.stateful.protocol import Key, Output, StateError
from deployments.stateful.replica.held_states import Array
from models.networks.network import Network
from models.policy.form import HIDDEN_DIM
from models.policy.inputs import InputLayout
from models.policy.step import Floats, PolicyStep, Step

Observed = tuple[int, list[float]]
"""The input of one step: a junction's agent index, and at most ``max_obs`` finite values."""


class NonFiniteStateError(StateError):
    """The step would leave the range of float32; the state is as it was."""

    def __init__(self) -> None:
        super().__init__("obs_data is so large that the hidden state would not be finite")


class Decisions(list[Output | StateError]):
    """The outputs of B rows, each (action, confidence), with what telemetry and shadows read.

    Attributes:
        model: that made the step.
        agents: B agent indices.
        inputs: (B, width) as the policy saw them.
        step: what the policy returned.
        actions: B action indices.
        finite: B of them; a row that is not finite was refused.
    """

    model: PolicyModel
    agents: list[int]
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

    def step(self, inputs: Sequence[Observed], states: Array) -> tuple[Decisions, Array]:
        agents = [agent for agent, _ in inputs]
        encoded = self._encode(agents, [obs for _, obs in inputs])
        step = self.policy(encoded, states, self.unavailable[agents])
        actions, finite = step.actions.tolist(), step.finite.tolist()
        decisions = Decisions(zip(actions, step.confidences.tolist(), strict=True))
        decisions.model, decisions.agents, decisions.inputs = self, agents, encoded
        decisions.step, decisions.actions, decisions.finite = step, actions, finite
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
