"""What the policy sees: the one place that lays out its input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from models.networks.network import Network
from models.networks.network import Observation as Observation

MAX_ONE_HOT = 64  # with more agents, to look one up is less work than to multiply by zeros


class InputLayout:
    """The input of a network's policies: a row for each junction that is to be stepped.

    A row is the observation, zeros up to ``max_obs`` values, and the agent: as a one-hot where
    there are few, otherwise as the number that :class:`~models.policy.step.PolicyStep` looks up.
    The policy decides whether to use the agent.

    Args:
        one_hot: whether agents are one-hots in any case, as training has them.

    Attributes:
        width: of a row.
    """

    def __init__(self, network: Network, one_hot: bool = False) -> None:
        self.network = network
        self.one_hot = one_hot or network.n_agents <= MAX_ONE_HOT
        self.width = network.max_obs + (network.n_agents if self.one_hot else 1)
        self._max_obs = network.max_obs
        self._obs_sizes = network.obs_sizes

    def encode(
        self, agents: Sequence[int], observations: Sequence[Observation] | NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Lay out B rows, (B, width).

        Args:
            agents: B agent indices.
            observations: B observations of at most ``max_obs`` values each, or an array (B, n).
        """
        inputs = np.zeros((len(agents), self.width), np.float32)
        if isinstance(observations, np.ndarray):
            inputs[:, : observations.shape[1]] = observations
            if self.one_hot:
                inputs[np.arange(len(agents)), self._max_obs + np.asarray(agents)] = 1.0
            else:
                inputs[:, -1] = agents
        elif self.one_hot:
            first = self._max_obs
            for row, agent, observation in zip(inputs, agents, observations, strict=True):
                row[: len(observation)] = observation
                row[first + agent] = 1.0
        else:
            for row, agent, observation in zip(inputs, agents, observations, strict=True):
                row[: len(observation)] = observation
                row[-1] = agent
        return inputs

    def encode_all(self, observations: Mapping[str, Observation]) -> NDArray[np.float32]:
        """Lay out the observations of all junctions, by junction id, in the order of agents."""
        ids = self.network.ids
        return self.encode(range(len(ids)), [observations[each] for each in ids])

    def count_out_of_range(
        self, agents: Sequence[int], inputs: NDArray[np.float32]
    ) -> tuple[int, int]:
        """Count observed values that no training has had: each was 0 to 1, and padding was 0.

        Args:
            agents: B agent indices.
            inputs: (B, width) as ``encode`` lays them out.

        Returns:
            The values out of range, and the others of the junctions' own values. Of an observation
            that is longer than its junction's, the values beyond are out of range.
        """
        observed = inputs[:, : self._max_obs]
        own = np.arange(self._max_obs) < self._obs_sizes[list(agents)][:, None]
        outside = (observed < 0) | (observed > own)
        return int(np.count_nonzero(outside)), int(np.count_nonzero(own & ~outside))
