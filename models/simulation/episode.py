"""One loop for every controller: reset, then observe and act until the scenario is over."""

from __future__ import annotations

from collections.abc import Callable

from models.simulation.controllers import Controller
from models.simulation.environment import Observations, Scenario, TrafficEnvironment
from models.simulation.metrics import Metrics
from models.simulation.road_network import RoadNetwork

OnDecision = Callable[[Observations, dict[str, int]], None]


def run_episode(
    controller: Controller,
    scenario: Scenario,
    seed: int,
    network: RoadNetwork | None = None,
    on_decision: OnDecision | None = None,
) -> Metrics:
    """Run one controller through a scenario.

    Args:
        on_decision: called before each step with what was observed and decided.
    """
    with TrafficEnvironment(scenario, network) as environment:
        observations = environment.reset(seed)
        controller.reset()
        while not environment.done:
            actions = controller.act(observations)
            if on_decision is not None:
                on_decision(observations, actions)
            observations = environment.step(actions)
        return environment.metrics()
