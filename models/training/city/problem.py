"""A city's scenario as a problem for MAPPO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from models.networks.network import Network, network_of
from models.policy.step import PolicyStep
from models.simulation.city.policy import by_step
from models.simulation.city.scenario import CityScenario
from models.simulation.metrics import Metrics
from models.training.city.signals import CitySignals, state_dim
from models.training.mappo.config import Config
from models.training.mappo.problem import Task, Weights
from models.training.traffic_levels import TRAINING_SEED

VALIDATION_SEED = 50_000  # and those that follow


@dataclass(frozen=True)
class CityProblem:
    """The same traffic in every episode; seeds draw how people drive.

    Attributes:
        n_validation: seeds of a validation; where jams are rare, few seeds do not tell of them.
    """

    scenario: CityScenario
    n_validation: int = 6

    @cached_property
    def network(self) -> Network:
        return network_of(self.scenario.network)

    @property
    def state_dim(self) -> int:
        return state_dim(self.network)

    @property
    def validation_seeds(self) -> range:
        return range(VALIDATION_SEED, VALIDATION_SEED + self.n_validation)

    def tasks(self, config: Config, iteration: int) -> list[Task]:
        n_seeds = config.episodes // config.repeats
        first = TRAINING_SEED + 1_000_000 * config.seed + iteration * n_seeds
        return [
            Task(self.scenario, first + number, repeat, config.reward, config.team_share)
            for number in range(n_seeds)
            for repeat in range(config.repeats)
        ]

    def validation(self, config: Config) -> Sequence[tuple[CityScenario, int]]:
        return [(self.scenario, seed) for seed in self.validation_seeds]

    def open(self, task: Task) -> CitySignals:
        return CitySignals(task.scenario, task.reward, task.team_share)

    def test(self, weights: Weights, scenario: CityScenario, seed: int) -> Metrics:
        return by_step(scenario, seed, PolicyStep(weights, self.network))
