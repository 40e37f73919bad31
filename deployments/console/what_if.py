"""What-if: the policy's decision over the length of one queue, from the same hidden state."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from deployments.feed.messages import Decision
from deployments.http.errors import RefusedError
from models.networks.network import Network
from models.networks.shipped import SHIPPED
from models.policy.form import InvalidPolicyFileError
from models.policy.inputs import InputLayout
from models.policy.step import Floats, PolicyStep

VALUES = np.linspace(0, 1, 41)  # filled share of the lane
TOLERANCE = 2e-3  # of a reported probability
MAX_POLICIES = 4


class WhatIf:
    """Steps policies, which it loads on demand."""

    def __init__(self, network: Network = SHIPPED) -> None:
        self._network = network
        self._inputs = InputLayout(network)
        self._load = lru_cache(MAX_POLICIES)(self._load_version)

    async def curve(self, decision: Decision, lane: int) -> dict[str, Any]:
        """Return the probabilities of the actions over the length of one lane's queue.

        Args:
            decision: of the policy, with its hidden state.
            lane: in the order of the observation.

        Raises:
            RefusedError: 404 for no such lane or a junction of another network, 409 where the
                policy's file is gone or holds another one.
        """
        junction = self._network.junctions.get(decision.junction)
        if junction is None:
            raise RefusedError(f"The console shows the network {self._network.name} only", 404)
        if not 0 <= lane < junction.n_lanes:
            raise RefusedError(f"The junction has no lane {lane}", 404)
        policy = await self._policy(decision.policy)
        place = junction.n_phases + 1 + lane
        observation = np.zeros(junction.obs_size, np.float32)
        observation[: len(decision.observation)] = decision.observation
        rows = np.tile(observation, (len(VALUES) + 1, 1))
        values = VALUES.copy()
        values[np.abs(VALUES - observation[place]).argmin()] = observation[place]  # as it was
        rows[1:, place] = values
        probabilities = self._step(policy, decision, rows)
        if not np.allclose(probabilities[0], decision.probabilities, atol=TOLERANCE):
            raise _another_policy(decision.policy)
        return {
            "step": decision.step,
            "lane": lane,
            "value": round(float(observation[place]), 4),
            "values": values.round(4).tolist(),
            "probabilities": probabilities[1:].T.round(4).tolist(),
        }

    async def _policy(self, path: str) -> PolicyStep:
        try:
            stat = Path(path).stat()
            return await asyncio.to_thread(self._load, path, stat.st_mtime_ns, stat.st_size)
        except (OSError, InvalidPolicyFileError) as error:
            raise _another_policy(path) from error

    def _load_version(self, path: str, mtime_ns: int, size: int) -> PolicyStep:
        return PolicyStep.load(Path(path), self._network)

    def _step(self, policy: PolicyStep, decision: Decision, rows: Floats) -> Floats:
        """Return the probabilities (B, n_actions) for B observations from its hidden state."""
        agents = [self._network.junctions[decision.junction].agent_index] * len(rows)
        assert decision.hidden is not None, "the policy has made the decision"
        hidden = np.tile(decision.hidden, (len(rows), 1))
        unavailable = self._network.unavailable[agents]
        step = policy(self._inputs.encode(agents, list(rows)), hidden, unavailable)
        return policy.probabilities(step.hidden, unavailable)


def _another_policy(path: str) -> RefusedError:
    why = f"{path} does not hold the policy that has made this decision any more"
    return RefusedError(why, 409)
