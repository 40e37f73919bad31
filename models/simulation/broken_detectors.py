"""Detectors that fail: some of the lanes are no longer seen."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from models.networks.shipped import JUNCTIONS
from models.simulation.controllers import Controller
from models.simulation.observation import Observation


class BrokenDetectors:
    """One lane of each junction of which the same value is observed all the time.

    Args:
        reads: the share of the lane that its detector says is filled, 0 to 1.
        seed: draws the lanes.
    """

    def __init__(self, reads: float, seed: int) -> None:
        rng = np.random.default_rng((seed, 11))
        self._reads = reads
        self._broken = {
            junction.id: junction.n_phases + 1 + int(rng.integers(junction.n_lanes))
            for junction in JUNCTIONS.values()
        }

    def see(self, observations: Mapping[str, Observation]) -> dict[str, Observation]:
        """Return copies of the observations with what these detectors tell."""
        seen = {}
        for junction_id, observation in observations.items():
            seen[junction_id] = observation.copy()
            seen[junction_id][self._broken[junction_id]] = self._reads
        return seen


class WithBrokenDetectors:
    """A controller that sees what broken detectors tell."""

    def __init__(self, controller: Controller, detectors: BrokenDetectors) -> None:
        self._controller = controller
        self._detectors = detectors

    def reset(self) -> None:
        self._controller.reset()

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        return self._controller.act(self._detectors.see(observations))
