"""What fails while signals are controlled, for training and for validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from models.simulation.broken_detectors import BrokenDetectors, WithBrokenDetectors
from models.simulation.controllers import Controller
from models.simulation.metrics import Metrics
from models.simulation.outages import AlwaysRed, WithLosses
from models.training.mappo.problem import Signals
from models.training.signals_env import AgentObservation, Floats

BLIND_SHARE = 0.4  # of the broken detectors; the others read a constant above zero
LOST_SHARES = (0.01, 0.1)


class Faults(NamedTuple):
    """What fails in an episode.

    Attributes:
        reads: what one detector of each junction reads all the time; None where none is broken.
        lost: share of a junction's answers that are lost, 0 to 1; it shows the gateway's RED.
    """

    reads: float | None = None
    lost: float = 0.0

    def on(self, controller: Controller, seed: int) -> Controller:
        """Return the controller with what it can see, and what arrives of its answers."""
        if self.reads is not None:
            controller = WithBrokenDetectors(controller, BrokenDetectors(self.reads, seed))
        if self.lost:
            controller = WithLosses(controller, AlwaysRed(), self.lost, seed)
        return controller


NONE = Faults()


def draw_faults(rng: np.random.Generator, share: float) -> Faults:
    """Draw the faults of an episode.

    Args:
        share: of the episodes with broken detectors, and as many that lose answers.
    """
    breaks, loses = rng.random(2) < share
    reads = 0.0 if rng.random() < BLIND_SHARE else float(rng.uniform(0.1, 1.0))
    lost = float(rng.choice(LOST_SHARES))
    return Faults(reads if breaks else None, lost if loses else 0.0)


class FaultySignals:
    """Signals whose detectors or answers fail. The critic's state and the rewards are true."""

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
        observations, *others = self._signals.step(arrived)
        rewards, terminated, truncated, infos = others
        return self._seen(observations), rewards, terminated, truncated, infos

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
