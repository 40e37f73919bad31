"""One run of one classic controller in a city."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from models.simulation.city.controllers import ByQueues
from models.simulation.city.environment import CityEnvironment
from models.simulation.city.flows import flows_of
from models.simulation.city.programs import actuated, webster
from models.simulation.city.scenario import CityScenario
from models.simulation.metrics import Metrics
from models.sumo.net import SumoNet, read_sumo_net

FLOWS_SEED = 0  # no evaluation uses it

Run = Callable[[CityScenario, int], Metrics]


def by_programs(scenario: CityScenario, seed: int, programs: tuple[str, ...] = ()) -> Metrics:
    """Let the net's own programs run, or others."""
    with CityEnvironment(scenario, programs, own_programs=True) as environment:
        environment.reset(seed)
        while not environment.is_over:
            environment.step({})
        return environment.metrics()


def by_queues(scenario: CityScenario, seed: int, pressure: bool) -> Metrics:
    """Let max pressure decide by standing vehicles, or greedy by all, as RESCO's do."""
    controller = ByQueues(scenario.network, pressure)
    with CityEnvironment(scenario) as environment:
        environment.reset(seed)
        count = environment.queue if pressure else environment.vehicles
        while not environment.is_over:
            environment.step(controller.act(environment.phases, count))
        return environment.metrics()


def _webster(scenario: CityScenario, seed: int) -> Metrics:
    return by_programs(scenario, seed, _webster_programs(scenario))


@lru_cache(maxsize=8)
def _webster_programs(scenario: CityScenario) -> tuple[str, ...]:
    flows = flows_of(scenario, FLOWS_SEED)
    return tuple(webster(_net(scenario.net), scenario.network, flows))


def _actuated(scenario: CityScenario, seed: int) -> Metrics:
    programs = actuated(_net(scenario.net), scenario.network, "actuated")
    return by_programs(scenario, seed, tuple(programs))


def _delay_based(scenario: CityScenario, seed: int) -> Metrics:
    programs = actuated(_net(scenario.net), scenario.network, "delay_based")
    return by_programs(scenario, seed, tuple(programs))


@lru_cache(maxsize=4)
def _net(path: Path) -> SumoNet:
    return read_sumo_net(path)


CONTROLLERS: dict[str, Run] = {
    "fixed time": by_programs,
    "Webster": _webster,
    "actuated": _actuated,
    "delay-based": _delay_based,
    "max pressure": lambda scenario, seed: by_queues(scenario, seed, pressure=True),
    "greedy": lambda scenario, seed: by_queues(scenario, seed, pressure=False),
}
