"""What the policy sees: the one place that lays out its input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from models.junctions import JUNCTIONS, MAX_OBS
from models.policy.form import INPUT_DIM

Observation = Sequence[float] | NDArray[np.float32]

UNAVAILABLE = np.array([[not a for a in each.avail_actions] for each in JUNCTIONS.values()])
"""(5, 4) True for actions that the junction of an agent index does not have."""

_SIZES = np.array([each.obs_size for each in JUNCTIONS.values()])
_LARGEST = (np.arange(MAX_OBS) < _SIZES[:, None]).astype(np.float32)


def encode(agents: Sequence[int], observations: Sequence[Observation]) -> NDArray[np.float32]:
    """Lay out one row per agent: its observation, zeros up to 19 values, its one-hot index.

    Args:
        agents: B agent indices.
        observations: B observations of at most 19 values each.

    Returns:
        (B, 24).
    """
    inputs = np.zeros((len(agents), INPUT_DIM), np.float32)
    for row, agent, observation in zip(inputs, agents, observations, strict=True):
        row[: len(observation)] = observation
        row[MAX_OBS + agent] = 1.0
    return inputs


def count_out_of_range(agents: Sequence[int], inputs: NDArray[np.float32]) -> tuple[int, int]:
    """Count observed values that no training has had: each was from 0 to 1, and padding was 0.

    Args:
        agents: B agent indices.
        inputs: (B, 24) as ``encode`` lays them out.

    Returns:
        The values out of range, and all that the junctions observe.
    """
    observed, largest = inputs[:, :MAX_OBS], _LARGEST[list(agents)]
    outside = np.count_nonzero((observed < 0) | (observed > largest))
    return int(outside), int(_SIZES[list(agents)].sum())


def encode_all(observations: Mapping[str, Observation]) -> NDArray[np.float32]:
    """Lay out the observations of all junctions, by junction id, in table order: (5, 24)."""
    junctions = JUNCTIONS.values()
    return encode(
        [junction.agent_index for junction in junctions],
        [observations[junction.id] for junction in junctions],
    )
