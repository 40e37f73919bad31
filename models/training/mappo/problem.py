"""What MAPPO needs to know of the signals that it learns to set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from models.networks.network import Network
from models.simulation.metrics import Metrics
from models.training.mappo.config import Config
from models.training.signals_env import AgentObservation, Floats, Reward

Weights = Mapping[str, NDArray[np.float32]]  # arrays travel between processes as plain bytes


class Task(NamedTuple):
    """An episode to drive: its traffic, and which repeat of it; both draw the actions.

    Attributes:
        scenario: of the problem's own kind; anything that can be a key.
        effort: tasks with more are begun first.
    """

    scenario: Any
    seed: int
    repeat: int
    reward: Reward
    team_share: float
    effort: float = 0.0


class Signals(Protocol):
    """The signals in one simulation: what is used of PettingZoo's parallel interface, and more."""

    @property
    def agents(self) -> list[str]:
        """The junctions, none of them once the episode is over."""

    def reset(self, seed: int) -> tuple[dict[str, AgentObservation], Any]:
        """Start the episode of a seed."""

    def step(
        self, actions: Mapping[str, int]
    ) -> tuple[dict[str, AgentObservation], dict[str, float], Any, Any, Any]:
        """Let the time of a decision pass; returns observations and rewards first."""

    def state(self) -> Floats:
        """(state_dim,) what the central critic sees."""

    def metrics(self) -> Metrics:
        """End the simulation and count how it went."""

    def close(self) -> None:
        """Free the simulator."""


class Problem(Protocol):
    """A network with its traffic and its rules; travels to worker processes."""

    @property
    def network(self) -> Network:
        """The agents, and the sizes of the policy."""

    @property
    def state_dim(self) -> int:
        """Of what the critic sees."""

    def tasks(self, config: Config, iteration: int) -> list[Task]:
        """Return the iteration's episodes, the same on every call; repeats stand together."""

    def validation(self, config: Config) -> Sequence[tuple[Any, int]]:
        """Return scenarios with seeds that no episode has, to judge policies by."""

    def open(self, task: Task) -> Signals:
        """Return what drives a task's episode."""

    def test(self, weights: Weights, scenario: Any, seed: int) -> Metrics:
        """Tell how the policy, which takes its likeliest actions as when served, does."""
