"""Figures of a comparison's runs: means, differences seed by seed, and the worst approaches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lab.evaluate.runs import Run
from lab.evaluate.statistics import Estimate, estimate
from lab.sim.metrics import Approach

Measure = Callable[[Run], float]

MEASURES: dict[str, Measure] = {
    "delay": lambda run: run.delay_s,
    "waiting": lambda run: run.waiting_s,
    "trip time": lambda run: run.trip_s,
}

WAITING: dict[str, Measure] = {
    "mean": lambda run: run.waiting_s,
    "95th percentile": lambda run: run.waiting_95_s,
    "longest": lambda run: run.longest_waiting_s,
}

EMISSIONS: dict[str, Measure] = {
    "CO₂, kg": lambda run: run.co2_kg,
    "CO₂, g/km": lambda run: 1000 * run.co2_kg / (run.driven_km or 1),
    "NOₓ, g": lambda run: run.nox_g,
    "fuel, kg": lambda run: run.fuel_kg,
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


FEWEST = 10  # vehicles of a run, for an approach to be called the worst


class Figures:
    """The runs, by controller, in the order of the seeds.

    Attributes:
        controllers, seeds: in the order of the runs.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = {
            name: [run for run in runs if run.controller == name]
            for name in dict.fromkeys(run.controller for run in runs)
        }
        self.controllers = tuple(self._runs)
        self.seeds = [run.seed for run in self._runs[self.controllers[0]]]

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
        """Return the best, and after it the controllers whose difference from it is not clear."""
        best, *others = self.ranking(measure)
        return [best, *(each for each in others if not self.beyond(each, best, measure).is_clear)]

    def approaches(self, controller: str) -> dict[str, Approach]:
        """Return the approaches, the longest mean wait first: means, and maxima of all seeds.

        Those with fewer than FEWEST vehicles in a run come last.
        """
        runs = self._runs[controller]
        found = {road: _mean([run.approaches[road] for run in runs]) for road in runs[0].approaches}
        rare = {road: found[road].vehicles < FEWEST for road in found}
        return {
            each: found[each]
            for each in sorted(found, key=lambda each: (rare[each], -found[each].wait_s))
        }


def _mean(of_seeds: Sequence[Approach]) -> Approach:
    means = Approach(*np.mean(of_seeds, axis=0))
    return means._replace(
        longest_queue=max(each.longest_queue for each in of_seeds),
        longest_wait_s=max(each.longest_wait_s for each in of_seeds),
    )
