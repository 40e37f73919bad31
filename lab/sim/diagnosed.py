"""A controller whose detectors are diagnosed, as the inference service does on request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from lab.sim.controllers import Controller
from lab.sim.observation import Observation
from models.networks.network import Network
from models.signals.diagnosis import FAULTS, evidence_of, read_diagnoses


class Diagnosed:
    """Passes observations on to a controller, with estimates in place of failed readings.

    Attributes:
        alarms: how often a detector was found to have each fault.
        faults: present ones, by junction: for each lane 0, or a place in FAULTS, from 1 on.
        quiet: by junction and lane, the most that has spoken for no activity; without alarms.
    """

    def __init__(self, controller: Controller, network: Network) -> None:
        self._controller = controller
        self._diagnoses = dict(zip(network.ids, read_diagnoses(network), strict=True))
        self._memories = {name: [0.0] * each.size for name, each in self._diagnoses.items()}
        self.alarms: Counter[str] = Counter()
        self.faults: dict[str, list[int]] = {}
        self.quiet: dict[tuple[str, int], float] = {}

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        estimated: dict[str, Observation] = {}
        for name, diagnosis in self._diagnoses.items():
            observed = [float(value) for value in observations[name]]
            memory, estimate, faults = diagnosis(self._memories[name], observed)
            before = self.faults.get(name) or [0] * len(faults)
            found = [new for old, new in zip(before, faults, strict=True) if new and not old]
            self.alarms.update(FAULTS[each - 1] for each in found)
            readings = observed[-len(faults) :]
            for lane, (reading, evidence) in enumerate(
                zip(readings, evidence_of(memory), strict=True)
            ):
                if reading == 0:
                    most = self.quiet.get((name, lane), 0.0)
                    self.quiet[name, lane] = max(most, evidence)
            self._memories[name], self.faults[name] = memory, faults
            estimated[name] = np.array(estimate, np.float32)
        return self._controller.act(estimated)
