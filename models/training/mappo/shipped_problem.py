"""The five shipped junctions as a problem for MAPPO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.junctions import SHIPPED
from models.networks.network import Network
from models.simulation.controllers import PolicyController
from models.simulation.environment import Scenario
from models.simulation.episode import run_episode
from models.simulation.metrics import Metrics
from models.simulation.road_network import read_network
from models.training.mappo.config import Config
from models.training.mappo.networks import make_policy
from models.training.mappo.problem import Task, Weights
from models.training.signals_env import STATE_DIM, SignalsEnv
from models.training.traffic_levels import (
    TEST_LEVELS,
    TRAINING_SEED,
    VALIDATION_SEEDS,
    draw_training_scenario,
)


@dataclass(frozen=True)
class ShippedProblem:
    """Hours of any level of traffic, drawn anew for each group of repeats."""

    state_dim: int = STATE_DIM

    @property
    def network(self) -> Network:
        return SHIPPED

    def tasks(self, config: Config, iteration: int) -> list[Task]:
        n_traffics = config.episodes // config.repeats
        first = TRAINING_SEED + 1_000_000 * config.seed + iteration * n_traffics
        progress = iteration / config.curriculum_iterations
        rng = np.random.default_rng((config.seed, 1, iteration))
        traffics = [
            (draw_training_scenario(rng, progress, config.duration_s), first + number)
            for number in range(n_traffics)
        ]
        return [
            Task(*traffic, repeat, config.reward, config.team_share, traffic[0].demand_scale)
            for traffic in traffics
            for repeat in range(config.repeats)
        ]

    def validation(self, config: Config) -> Sequence[tuple[Scenario, int]]:
        """Return hours of every level."""
        runs = [(make(seed), seed) for make in TEST_LEVELS.values() for seed in VALIDATION_SEEDS]
        return [(replace(run, duration_s=config.duration_s), seed) for run, seed in runs]

    def open(self, task: Task) -> SignalsEnv:
        return SignalsEnv(lambda _: task.scenario, task.reward, task.team_share, read_network())

    def test(self, weights: Weights, scenario: Scenario, seed: int) -> Metrics:
        return run_episode(PolicyController(make_policy(weights, SHIPPED)), scenario, seed)
