"""Signals whose detectors or answers fail, to train with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from models.simulation.broken_detectors import BrokenDetectors
from models.simulation.metrics import Metrics
from models.training.faults import Faults
from models.training.mappo.problem import Signals
from models.training.signals_env import AgentObservation, Floats


class FaultySignals:
    """What the policy is told and what arrives of it fails; critic and rewards see the truth."""

    def __init__(self, signals: Signals, faults: Faults) -> None:
        self._signals = signals
        self._faults = faults

    @property
    def agents(self) -> list[str]:
        return self._signals.agents

    def reset(self, seed: int) -> tuple[dict[str, AgentObservation], Any]:
        reads = self._faults.reads
        self._detectors = None if reads is None else BrokenDetectors(reads, seed)
        self._rng = np.random.default_rng(seed)
        observations, infos = self._signals.reset(seed)
        return self._seen(observations), infos

    def step(
        self, actions: Mapping[str, int]
    ) -> tuple[dict[str, AgentObservation], dict[str, float], Any, Any, Any]:
        arrived = {
            agent: 0 if self._rng.random() < self._faults.lost else action
            for agent, action in actions.items()
        }
        observations, *rest = self._signals.step(arrived)
        return self._seen(observations), *rest

    def state(self) -> Floats:
        return self._signals.state()

    def metrics(self) -> Metrics:
        return self._signals.metrics()

    def close(self) -> None:
        self._signals.close()

    def _seen(self, observations: dict[str, AgentObservation]) -> dict[str, AgentObservation]:
        if self._detectors is None:
            return observations
        values = {agent: each["observation"] for agent, each in observations.items()}
        seen = self._detectors.see(values)
        return {agent: each | {"observation": seen[agent]} for agent, each in observations.items()}
