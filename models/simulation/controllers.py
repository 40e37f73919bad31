"""Controllers: what decides the phases. One interface, so that one loop compares them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol, Self

import numpy as np
import torch

from models.networks.network import Junction
from models.networks.shipped import JUNCTIONS, N_AGENTS, SHIPPED
from models.policy.form import HIDDEN_DIM
from models.policy.inputs import encode_all
from models.policy.network import RecurrentPolicy, mask_logits, read_state_dict
from models.simulation.observation import Observation
from models.simulation.road_network import RoadNetwork


class Controller(Protocol):
    """Chooses a green phase for each junction at each decision."""

    def reset(self) -> None:
        """Begin a new simulation run."""

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        """Return actions by junction id; a junction left out keeps its phase."""


class KeepPhase:
    """Asks for nothing: signals stay as they are, or do what SUMO's own program says."""

    def reset(self) -> None:
        """Do nothing: nothing is kept between decisions."""

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        return {}


class RandomPhases:
    """Asks each junction for any of its phases, each as likely as another."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.reset()

    def reset(self) -> None:
        self._rng = np.random.default_rng(self._seed)

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        return {each: int(self._rng.integers(JUNCTIONS[each].n_phases)) for each in observations}


class MaxPressure:
    """Gives green to the phase whose lanes hold the largest queue (Varaiya, 2013), with hysteresis.

    Args:
        network: says which lanes each phase serves.
        hysteresis: vehicles by which another phase must lead; without it, light traffic makes
            signals change all the time, and each change costs its yellow.
    """

    def __init__(self, network: RoadNetwork, hysteresis: float = 1.0) -> None:
        self._hysteresis = hysteresis
        self._queues_served = {
            junction_id: _served_lanes(network, junction_id) for junction_id in JUNCTIONS
        }

    def reset(self) -> None:
        """Do nothing: nothing is kept between decisions."""

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        return {
            junction_id: self._choose(JUNCTIONS[junction_id], observation)
            for junction_id, observation in observations.items()
        }

    def _choose(self, junction: Junction, observation: Observation) -> int:
        current = int(observation[: junction.n_phases].argmax())
        pressures = self._queues_served[junction.id] @ observation[junction.n_phases + 1 :]
        best = int(pressures.argmax())
        return best if pressures[best] > pressures[current] + self._hysteresis else current


def _served_lanes(network: RoadNetwork, junction_id: str) -> np.ndarray:
    """Return (n_phases, n_lanes): lane capacity where the phase gives the lane green, else 0."""
    layout = network.junctions[junction_id]
    served = np.zeros((len(layout.phases), len(layout.lanes)))
    for column, lane in enumerate(layout.lanes):
        for approach in layout.approaches:
            if lane.id in approach.lanes:
                for phase, green in enumerate(approach.greens):
                    if green in "Gg":
                        served[phase, column] = lane.capacity
    return served


class PolicyController:
    """The recurrent policy in this process, with one hidden state per junction."""

    def __init__(self, policy: RecurrentPolicy) -> None:
        self._policy = policy
        self._avail_actions = torch.tensor([SHIPPED.avail_actions(each) for each in JUNCTIONS])
        self.reset()

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Read the weights; raises InvalidPolicyFileError when they are not this network's."""
        policy = RecurrentPolicy()
        policy.load_state_dict(read_state_dict(path))
        return cls(policy)

    def reset(self) -> None:
        self._hidden = torch.zeros(N_AGENTS, HIDDEN_DIM)

    @torch.inference_mode()
    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        inputs = torch.from_numpy(encode_all(observations))
        logits, self._hidden = self._policy(inputs, self._hidden)
        actions = mask_logits(logits, self._avail_actions).argmax(1).tolist()
        return dict(zip(JUNCTIONS, actions, strict=True))
