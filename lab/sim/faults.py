"""Faults between a policy and the street: lost answers, and failed detectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from lab.sim.controllers import Controller
from lab.sim.observation import Observation
from models.networks.network import Network
from models.signals.diagnosis import read_diagnoses


class WithLosses:
    """A controller some of whose answers are lost, while its steps are made.

    Args:
        fallback: decides in place of what is lost.
        share: of a junction's decisions that are lost, 0 to 1.
    """

    def __init__(
        self, controller: Controller, fallback: Controller, share: float, seed: int
    ) -> None:
        self._controller = controller
        self._fallback = fallback
        self._share = share
        self._rng = np.random.default_rng(seed)

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        actions = self._controller.act(observations)
        instead = self._fallback.act(observations)
        return {
            each: instead[each] if self._rng.random() < self._share else action
            for each, action in actions.items()
        }


class WithOutage:
    """A controller that is dead for some time, and then begins anew, with nothing remembered.

    Args:
        make: makes the controller, at first and after the outage.
        fallback: decides meanwhile.
        begin_s, end_s: of the outage, in seconds since the first decision.
    """

    def __init__(
        self,
        make: Callable[[], Controller],
        fallback: Controller,
        begin_s: int,
        end_s: int,
        decision_s: int,
    ) -> None:
        self._make = make
        self._controller = make()
        self._fallback = fallback
        self._begin_s, self._end_s = begin_s, end_s
        self._decision_s = decision_s
        self._now_s = 0

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        now_s, self._now_s = self._now_s, self._now_s + self._decision_s
        instead = self._fallback.act(observations)
        if self._begin_s <= now_s < self._end_s:
            return instead
        if now_s == self._end_s:
            self._controller = self._make()
        return self._controller.act(observations)


class Diagnosed:
    """Passes observations on to a controller, with estimates in place of failed readings.

    The inference service does so on request.

    Attributes:
        faults: present ones, by junction: for each lane 0, or a place in FAULTS, from 1 on.
    """

    def __init__(self, controller: Controller, network: Network) -> None:
        self._controller = controller
        self._diagnoses = dict(zip(network.ids, read_diagnoses(network), strict=True))
        self._memories = {name: [0.0] * each.size for name, each in self._diagnoses.items()}
        self.faults: dict[str, list[int]] = {}

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        estimated: dict[str, Observation] = {}
        for name, diagnosis in self._diagnoses.items():
            observed = [float(value) for value in observations[name]]
            memory, estimate, self.faults[name] = diagnosis(self._memories[name], observed)
            self._memories[name], estimated[name] = memory, np.array(estimate, np.float32)
        return self._controller.act(estimated)
