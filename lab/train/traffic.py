"""The traffic that a policy is trained on: which scenarios, with which seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from lab.evaluate.cases import LEVELS
from lab.evaluate.comparison import RULES, digest_of_files
from lab.sim.scenario import Counts, Scenario
from lab.sim.shipped import MORNING_RUSH_S, shipped_demand, shipped_scenario, with_breakdown
from models.networks.network import Network, network_of
from models.networks.shipped import SHIPPED

# Evaluations have seeds from 1 on. No range reaches into another.
VALIDATION_SEED = 50_000
FURTHER_SEED = 100_000  # of the comparison at the end of a training
TRAINING_SEED = 200_000


class Task(NamedTuple):
    """An episode to drive.

    Attributes:
        repeat: of its traffic; seed and repeat draw the actions.
    """

    scenario: Scenario
    seed: int
    repeat: int = 0


@dataclass(frozen=True)
class OneScenario:
    """The same scenario in every episode; seeds draw how people drive.

    It travels to worker processes, as does :class:`DrawnHours`.

    Attributes:
        n_validation: seeds of a validation; where jams are rare, few seeds do not show them.
    """

    scenario: Scenario
    n_validation: int = 6

    @cached_property
    def network(self) -> Network:
        """The agents, and the sizes of the policy."""
        return network_of(self.scenario.network)

    @property
    def example(self) -> Scenario:
        """A scenario; the critic's input is as large for all of them."""
        return self.scenario

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What a run must be continued with."""
        scenario = self.scenario
        return {
            "safety": scenario.guarded,
            "n_validation": self.n_validation,
            "files": digest_of_files(scenario).hexdigest(),
            **{name: getattr(scenario, name) for name in RULES},
        }

    def tasks(self, seed: int, iteration: int, n_seeds: int) -> list[Task]:
        """Return the iteration's episodes, the same on every call."""
        first = _first_seed(seed, iteration, n_seeds)
        return [Task(self.scenario, first + number) for number in range(n_seeds)]

    def validation(self, first_seed: int = VALIDATION_SEED) -> Sequence[Task]:
        """Return episodes whose seeds no training has, to judge policies by."""
        seeds = range(first_seed, first_seed + self.n_validation)
        return [Task(self.scenario, seed) for seed in seeds]


SHARES = 0.2, 0.25, 0.3, 0.25  # of low, medium, rush-hour and over-saturated traffic
BREAKDOWNS = 0.2  # share of the hours in which a lane is closed for a while


@dataclass(frozen=True)
class DrawnHours:
    """Hours of the shipped network at any level of traffic, drawn anew for each iteration.

    Attributes:
        guarded, cyclic, counts: see Scenario.
    """

    n_validation: int = 2
    guarded: bool = False
    cyclic: bool = False
    counts: Counts = "standing"

    @property
    def network(self) -> Network:
        return SHIPPED

    @property
    def example(self) -> Scenario:
        return shipped_scenario(shipped_demand(MORNING_RUSH_S))

    @property
    def settings(self) -> dict[str, Any]:
        rules = {"safety": self.guarded, "cyclic": self.cyclic, "counts": self.counts}
        return rules | {"n_validation": self.n_validation}

    def tasks(self, seed: int, iteration: int, n_seeds: int) -> list[Task]:
        first = _first_seed(seed, iteration, n_seeds)
        rng = np.random.default_rng((seed, 1, iteration))
        return [
            Task(self._under_rules(self._draw(rng)), first + number) for number in range(n_seeds)
        ]

    def validation(self, first_seed: int = VALIDATION_SEED) -> Sequence[Task]:
        """Return hours of every level."""
        seeds = range(first_seed, first_seed + self.n_validation)
        return [
            Task(self._under_rules(make(seed)), seed) for make in LEVELS.values() for seed in seeds
        ]

    def _draw(self, rng: np.random.Generator) -> Scenario:
        """Draw an hour.

        Times of day and factors are drawn from ranges, so that the policy meets every mix of
        directions and no test scenario exactly.
        """
        level = rng.choice(4, p=SHARES)
        if level == 0:
            begin_h, scale = rng.uniform(20, 22), rng.uniform(0.5, 1.3)
        elif level == 1:
            begin_h, scale = rng.uniform(9, 14), rng.uniform(0.8, 1.2)
        else:
            begin_h = rng.uniform(6.75, 8) if rng.random() < 0.5 else rng.uniform(16, 17.75)
            scale = rng.uniform(0.85, 1.1) if level == 2 else rng.uniform(1.1, 1.35)
        demand = shipped_demand(int(begin_h * 60) * 60, scale=float(scale))
        breaks_down = rng.random() < BREAKDOWNS
        return with_breakdown(demand, rng) if breaks_down else shipped_scenario(demand)

    def _under_rules(self, hour: Scenario) -> Scenario:
        return replace(hour, guarded=self.guarded, cyclic=self.cyclic, counts=self.counts)


Traffic = OneScenario | DrawnHours


def _first_seed(seed: int, iteration: int, n_seeds: int) -> int:
    return TRAINING_SEED + 1_000_000 * seed + iteration * n_seeds
