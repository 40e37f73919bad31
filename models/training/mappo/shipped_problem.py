"""The five shipped junctions as a problem for MAPPO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from models.networks.network import Network
from models.networks.shipped import SHIPPED
from models.simulation.controllers import PolicyController
from models.simulation.environment import Scenario
from models.simulation.episode import run_episode
from models.simulation.metrics import Metrics
from models.simulation.road_network import read_network
from models.training.faults import NONE, Faults, draw_faults
from models.training.mappo.config import Config
from models.training.mappo.faulty_signals import FaultySignals
from models.training.mappo.networks import make_policy
from models.training.mappo.problem import Signals, Task, Weights
from models.training.signals_env import STATE_DIM, SignalsEnv
from models.training.traffic_levels import (
    MORNING_RUSH_S,
    TEST_LEVELS,
    TRAINING_SEED,
    VALIDATION_SEEDS,
    TrafficMix,
    draw_training_scenario,
)


class Hour(NamedTuple):
    """What an episode is about."""

    scenario: Scenario
    faults: Faults = NONE


class ShippedProblem:
    """Hours of any level of traffic and of any fault, drawn anew for each group of repeats."""

    @property
    def network(self) -> Network:
        return SHIPPED

    @property
    def state_dim(self) -> int:
        return STATE_DIM

    def tasks(self, config: Config, iteration: int) -> list[Task]:
        n_traffics = config.episodes // config.repeats
        first = TRAINING_SEED + 1_000_000 * config.seed + iteration * n_traffics
        progress = iteration / config.curriculum_iterations
        rng = np.random.default_rng((config.seed, 1, iteration))
        faults_rng = np.random.default_rng((config.seed, 3, iteration))
        mix = TrafficMix.parse(config.levels, config.breakdowns)
        scenarios = [
            draw_training_scenario(rng, progress, config.duration_s, mix) for _ in range(n_traffics)
        ]
        hours = [draw_hour(scenario, faults_rng, config) for scenario in scenarios]
        return [
            Task(
                hour,
                first + number,
                repeat,
                config.reward,
                config.team_share,
                hour.scenario.demand_scale,
            )
            for number, hour in enumerate(hours)
            for repeat in range(config.repeats)
        ]

    def validation(self, config: Config) -> Sequence[tuple[Hour, int]]:
        """Return hours of every level, and of every fault if these are trained for."""
        hours = [
            (Hour(make(seed)), seed) for make in TEST_LEVELS.values() for seed in VALIDATION_SEEDS
        ]
        if config.faults:
            hours += [(each, seed) for seed in VALIDATION_SEEDS for each in faulty_hours(seed)]
        return [
            (hour._replace(scenario=replace(hour.scenario, duration_s=config.duration_s)), seed)
            for hour, seed in hours
        ]

    def open(self, task: Task) -> Signals:
        hour: Hour = task.scenario
        signals = SignalsEnv(lambda _: hour.scenario, task.reward, task.team_share, read_network())
        return FaultySignals(signals, hour.faults) if hour.faults != NONE else signals

    def test(self, weights: Weights, scenario: Hour, seed: int) -> Metrics:
        controller = PolicyController(make_policy(weights, SHIPPED))
        return run_episode(scenario.faults.on(controller, seed), scenario.scenario, seed)


def draw_hour(scenario: Scenario, rng: np.random.Generator, config: Config) -> Hour:
    """Draw what is not as usual in an hour."""
    faults = draw_faults(rng, config.faults)
    goes_other_ways, ways = rng.random() < config.faults, int(rng.integers(TRAINING_SEED, 2**31))
    return Hour(replace(scenario, strange=ways) if goes_other_ways else scenario, faults)


def faulty_hours(seed: int) -> list[Hour]:
    """Return rush hours with each fault."""
    rush = Scenario(MORNING_RUSH_S)
    return [
        Hour(rush, Faults(reads=0.0)),
        Hour(rush, Faults(reads=0.5)),
        Hour(rush, Faults(lost=0.1)),
        Hour(replace(rush, strange=seed)),
    ]
