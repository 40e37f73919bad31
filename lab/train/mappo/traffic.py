"""The traffic that a policy is trained on: which scenarios, with which seeds and faults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Annotated, Any, NamedTuple, Protocol

import numpy as np

from lab.evaluate.cases import LEVELS
from lab.evaluate.comparison import RULES, digest_of_files
from lab.sim.daily_demand import HOUR_S, DailyDemand
from lab.sim.scenario import Counts, Scenario
from lab.sim.shipped import (
    MORNING_RUSH_S,
    shipped_demand,
    shipped_scenario,
    with_breakdown,
)
from lab.train.mappo.config import Config
from models.networks.network import Network, network_of
from models.networks.shipped import SHIPPED

# Evaluations have seeds from 1 on. No range reaches into another.
VALIDATION_SEED = 50_000
TRAINING_SEED = 200_000

BLIND_SHARE = 0.4  # of the broken detectors; the others read a constant above zero
LOST_SHARES = (0.01, 0.1)


class Task(NamedTuple):
    """An episode to drive.

    Attributes:
        repeat: which repeat of its traffic it is; seed and repeat draw the actions.
        lost: share of a junction's answers that are lost, 0 to 1; it shows the gateway's RED.
        effort: tasks with more are begun first.
    """

    scenario: Scenario
    seed: int
    repeat: int = 0
    lost: float = 0.0
    effort: float = 0.0


class Traffic(Protocol):
    """Where episodes come from; travels to worker processes."""

    @property
    def network(self) -> Network:
        """The agents, and the sizes of the policy."""

    @property
    def example(self) -> Scenario:
        """A scenario; the critic's input is as large for all of them."""

    @property
    def settings(self) -> dict[str, Any]:
        """What a run must be continued with."""

    def tasks(self, config: Config, iteration: int) -> list[Task]:
        """Return the iteration's episodes, the same on every call; repeats are side by side."""

    def validation(self) -> Sequence[Task]:
        """Return episodes whose seeds no training has, to judge policies by."""


@dataclass(frozen=True)
class OneScenario:
    """The same scenario in every episode; seeds draw how people drive.

    Attributes:
        n_validation: seeds of a validation; where jams are rare, few seeds do not show them.
    """

    scenario: Scenario
    n_validation: int = 6

    @cached_property
    def network(self) -> Network:
        return network_of(self.scenario.network)

    @property
    def example(self) -> Scenario:
        return self.scenario

    @cached_property
    def settings(self) -> dict[str, Any]:
        scenario = self.scenario
        return {
            "safety": scenario.guarded,
            "n_validation": self.n_validation,
            "files": digest_of_files(scenario).hexdigest(),
            **{name: getattr(scenario, name) for name in RULES},
        }

    def tasks(self, config: Config, iteration: int) -> list[Task]:
        first, n_seeds = _first_seed(config, iteration), config.episodes // config.repeats
        return [
            Task(self.scenario, first + number, repeat)
            for number in range(n_seeds)
            for repeat in range(config.repeats)
        ]

    def validation(self) -> Sequence[Task]:
        seeds = range(VALIDATION_SEED, VALIDATION_SEED + self.n_validation)
        return [Task(self.scenario, seed) for seed in seeds]


# Share of the training episodes at each level when the curriculum begins.
FIRST_SHARES = {"low": 0.30, "medium": 0.40, "rush": 0.30, "over-saturated": 0.0}


@dataclass(frozen=True)
class Mix:
    """What the drawn hours of the shipped network are like."""

    duration_s: Annotated[int, "length of each hour"] = HOUR_S
    levels: Annotated[
        str, "shares of low, medium, rush-hour and over-saturated traffic after the curriculum"
    ] = "0.2,0.25,0.3,0.25"
    curriculum_iterations: Annotated[
        int, "iterations until the heaviest traffic and breakdowns come as often as they ever will"
    ] = 1
    breakdowns: Annotated[float, "share of the hours in which a lane is closed for a while"] = 0.2
    faults: Annotated[
        float,
        "share of the hours in which a detector of each junction is broken; as many lose answers, "
        "and as many go other ways than usual",
    ] = 0.0

    def __post_init__(self) -> None:
        for name in ("duration_s", "curriculum_iterations"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} {getattr(self, name)} is less than 1")
        for name in ("breakdowns", "faults"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} {getattr(self, name)} is not from 0 to 1")
        shares = self._shares
        if len(shares) != len(FIRST_SHARES) or not 0 < sum(shares) < np.inf or min(shares) < 0:
            levels = ", ".join(FIRST_SHARES)
            raise ValueError(f"levels {self.levels!r} are not shares, 0 or more, of {levels}")

    @property
    def _shares(self) -> list[float]:
        try:
            return [float(each) for each in self.levels.split(",")]
        except ValueError:
            return []

    def shares(self, progress: float) -> dict[str, float]:
        """Return the share of each level, as the curriculum goes from 0 to 1."""
        start = np.array(list(FIRST_SHARES.values()))
        end = np.array(self._shares) / sum(self._shares)
        shares = start + min(1.0, progress) * (end - start)
        return dict(zip(FIRST_SHARES, shares / shares.sum(), strict=True))


@dataclass(frozen=True)
class DrawnHours:
    """Hours of the shipped network at any level of traffic, drawn anew for each iteration.

    Attributes:
        guarded, cyclic, counts: see Scenario.
    """

    mix: Mix = Mix()
    n_validation: int = 2
    guarded: bool = False
    cyclic: bool = False
    counts: Counts = "standing"

    @property
    def network(self) -> Network:
        return SHIPPED

    @property
    def example(self) -> Scenario:
        return shipped_scenario(shipped_demand(MORNING_RUSH_S, self.mix.duration_s))

    @property
    def settings(self) -> dict[str, Any]:
        rules = {"safety": self.guarded, "cyclic": self.cyclic, "counts": self.counts}
        return asdict(self.mix) | rules | {"n_validation": self.n_validation}

    def tasks(self, config: Config, iteration: int) -> list[Task]:
        first, n_hours = _first_seed(config, iteration), config.episodes // config.repeats
        progress = iteration / self.mix.curriculum_iterations
        rng = np.random.default_rng((config.seed, 1, iteration))
        faults_rng = np.random.default_rng((config.seed, 3, iteration))
        hours = [draw_hour(rng, progress, self.mix) for _ in range(n_hours)]
        hours = [with_faults(hour, faults_rng, self.mix.faults) for hour in hours]
        return [
            self._under_rules(hour._replace(seed=first + number, repeat=repeat))
            for number, hour in enumerate(hours)
            for repeat in range(config.repeats)
        ]

    def validation(self) -> Sequence[Task]:
        """Return hours of every level, and of every fault if these are trained for."""
        seeds = range(VALIDATION_SEED, VALIDATION_SEED + self.n_validation)
        hours = [Task(make(seed), seed) for make in LEVELS.values() for seed in seeds]
        if self.mix.faults:
            hours += [task for seed in seeds for task in faulty_hours(seed)]
        return [self._under_rules(self._shortened(hour)) for hour in hours]

    def _under_rules(self, task: Task) -> Task:
        scenario = replace(
            task.scenario, guarded=self.guarded, cyclic=self.cyclic, counts=self.counts
        )
        return task._replace(scenario=scenario)

    def _shortened(self, task: Task) -> Task:
        scenario, demand = task.scenario, task.scenario.demand
        end_s = scenario.begin_s + self.mix.duration_s
        if isinstance(demand, DailyDemand):
            demand = replace(demand, end_s=end_s)
        return task._replace(scenario=replace(scenario, demand=demand, end_s=end_s))


def _first_seed(config: Config, iteration: int) -> int:
    n_seeds = config.episodes // config.repeats
    return TRAINING_SEED + 1_000_000 * config.seed + iteration * n_seeds


def draw_hour(rng: np.random.Generator, progress: float, mix: Mix) -> Task:
    """Draw an hour; heavier traffic and breakdowns join in as progress goes from 0 to 1.

    Times of day and factors are drawn from ranges, so that the policy meets every mix of
    directions and no test scenario exactly.
    """
    shares = mix.shares(progress)
    level = rng.choice(list(shares), p=list(shares.values()))
    if level == "low":
        begin_h, scale = rng.uniform(20, 22), rng.uniform(0.5, 1.3)
    elif level == "medium":
        begin_h, scale = rng.uniform(9, 14), rng.uniform(0.8, 1.2)
    else:
        begin_h = rng.uniform(6.75, 8) if rng.random() < 0.5 else rng.uniform(16, 17.75)
        scale = rng.uniform(0.85, 1.1) if level == "rush" else rng.uniform(1.1, 1.35)
    demand = shipped_demand(int(begin_h * 60) * 60, mix.duration_s, float(scale))
    if rng.random() < mix.breakdowns * min(1.0, progress):
        return Task(with_breakdown(demand, rng), 0, effort=demand.scale)
    return Task(shipped_scenario(demand), 0, effort=demand.scale)


def with_faults(task: Task, rng: np.random.Generator, share: float) -> Task:
    """Draw what fails in an hour, and whether its traffic goes other ways.

    Args:
        share: of the hours with broken detectors; as many lose answers, and as many go other ways.
    """
    breaks, loses = rng.random(2) < share
    reads = 0.0 if rng.random() < BLIND_SHARE else float(rng.uniform(0.1, 1.0))
    lost = float(rng.choice(LOST_SHARES))
    goes_other_ways, ways = rng.random() < share, int(rng.integers(TRAINING_SEED, 2**31))
    scenario, demand = task.scenario, task.scenario.demand
    if goes_other_ways and isinstance(demand, DailyDemand):
        scenario = replace(scenario, demand=replace(demand, unusual=ways))
    scenario = replace(scenario, detector_reads=reads if breaks else None)
    return task._replace(scenario=scenario, lost=lost if loses else 0.0)


def faulty_hours(seed: int) -> list[Task]:
    """Return rush hours with each fault."""
    rush = shipped_scenario(shipped_demand(MORNING_RUSH_S))
    unusual = shipped_scenario(shipped_demand(MORNING_RUSH_S, unusual=seed))
    return [
        Task(replace(rush, detector_reads=0.0), seed),
        Task(replace(rush, detector_reads=0.5), seed),
        Task(rush, seed, lost=0.1),
        Task(unusual, seed),
    ]
