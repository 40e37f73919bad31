"""A policy decides for a city: the step, and the hidden states, of the service."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from models.networks.network import network_of
from models.policy.form import HIDDEN_DIM
from models.policy.inputs import InputLayout
from models.policy.step import PolicyStep
from models.simulation.city.environment import CityEnvironment
from models.simulation.city.scenario import CityScenario
from models.simulation.metrics import Metrics


def by_policy(scenario: CityScenario, seed: int, weights: Path) -> Metrics:
    """Let a policy's file decide.

    Raises:
        InvalidPolicyFileError: the weights are not of this network.
    """
    return by_step(scenario, seed, PolicyStep.load(weights, network_of(scenario.network)))


def by_step(scenario: CityScenario, seed: int, policy: PolicyStep) -> Metrics:
    """Let every signal take its most probable action, from hidden states of zeros on."""
    network = network_of(scenario.network)
    layout = InputLayout(network)
    hidden = np.zeros((network.n_agents, HIDDEN_DIM), np.float32)
    with CityEnvironment(scenario) as environment:
        observations = environment.reset(seed)
        while not environment.is_over:
            step = policy(layout.encode_all(observations), hidden, network.unavailable)
            hidden = step.hidden
            actions = zip(network.ids, map(int, step.actions), strict=True)
            observations = environment.step(dict(actions))
        return environment.metrics()
