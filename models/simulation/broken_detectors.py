"""Detectors that fail: a controller some of whose lanes are no longer seen."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from models.junctions import JUNCTIONS
from models.simulation.controllers import Controller
from models.simulation.observation import Observation


class WithBrokenDetectors:
    """A controller that observes the same value of one lane of each junction all the time.

    Args:
        reads: the share of the lane that its detector says is filled, 0 to 1.
        seed: draws the lanes.
    """

    def __init__(self, controller: Controller, reads: float, seed: int) -> None:
        rng = np.random.default_rng((seed, 11))
        self._controller = controller
        self._reads = reads
        self._broken = {
            junction.id: junction.n_phases + 1 + int(rng.integers(junction.n_lanes))
            for junction in JUNCTIONS.values()
        }

    def reset(self) -> None:
        self._controller.reset()

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        seen = {}
        for junction_id, observation in observations.items():
            seen[junction_id] = observation.copy()
            seen[junction_id][self._broken[junction_id]] = self._reads
        return self._controller.act(seen)
