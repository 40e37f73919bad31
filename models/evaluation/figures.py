"""What the runs of a comparison say: means, differences seed by seed, and how sure they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.evaluation.comparison import CityRun
from models.evaluation.statistics import Estimate, estimate

Measure = Callable[[CityRun], float]

MEASURES: dict[str, Measure] = {
    "delay": lambda run: run.delay_s,
    "waiting": lambda run: run.waiting_s,
    "trip time": lambda run: run.trip_s,
}


WALKS: dict[str, Measure] = {
    "delay": lambda run: run.walk_delay_s,
    "95th percentile": lambda run: run.walk_delay_95_s,
    "longest": lambda run: run.walk_delay_longest_s,
}


INCIDENTS: dict[str, Measure] = {
    "collisions": lambda run: run.collisions,
    "teleports": lambda run: run.teleports,
    "emergency braking": lambda run: run.emergency_braking,
}


def delay_of(vehicles: str) -> Measure:
    """Return the delay of a class of vehicles."""
    return lambda run: run.classes[vehicles][1]


def queue_at(junction: str) -> Measure:
    return lambda run: run.queues[junction]


class Difference(NamedTuple):
    """One controller less the best, seed by seed.

    Attributes:
        worse: in how many seeds the best was better.
    """

    estimate: Estimate
    worse: int

    @property
    def is_clear(self) -> bool:
        """Whether its 95 % interval is above zero; False for a single seed."""
        return self.estimate.mean - self.estimate.half_width > 0


class Figures:
    """The runs, by controller, in the order of the seeds.

    Attributes:
        controllers, seeds, junctions: in the order of the runs.
    """

    def __init__(self, runs: Sequence[CityRun]) -> None:
        self._runs = {
            name: [run for run in runs if run.controller == name]
            for name in dict.fromkeys(run.controller for run in runs)
        }
        self.controllers = tuple(self._runs)
        self.seeds = [run.seed for run in self._runs[self.controllers[0]]]
        self.junctions = tuple(runs[0].queues)

    def values(self, controller: str, measure: Measure) -> NDArray[np.float64]:
        """Return one value per seed."""
        return np.array([measure(run) for run in self._runs[controller]])

    def mean(self, controller: str, measure: Measure) -> Estimate:
        return estimate(self.values(controller, measure))

    def ranking(self, measure: Measure) -> list[str]:
        """Return the controllers from the least mean on."""
        return sorted(self.controllers, key=lambda each: self.mean(each, measure).mean)

    def beyond(self, controller: str, best: str, measure: Measure) -> Difference:
        """Pair by seed: much of the chance in the traffic cancels out."""
        differences = self.values(controller, measure) - self.values(best, measure)
        return Difference(estimate(differences), int((differences > 0).sum()))

    def equals(self, measure: Measure) -> list[str]:
        """Return whom the seeds do not tell from the best, and the best before them."""
        best, *others = self.ranking(measure)
        return [best, *(each for each in others if not self._is_clear(each, best, measure))]

    def _is_clear(self, controller: str, best: str, measure: Measure) -> bool:
        return self.beyond(controller, best, measure).is_clear
