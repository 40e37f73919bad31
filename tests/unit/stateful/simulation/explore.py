"""Many schedules from fresh seeds, with what they have reached."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.unit.stateful.simulation.actions import draw
from tests.unit.stateful.simulation.coverage import EXPECTED
from tests.unit.stateful.simulation.run import Result, run
from tests.unit.stateful.simulation.times import a_tenth_as_long
from tests.version import version


@dataclass
class Exploration:
    """Attributes:
    met: number of schedules that reached each situation.
    """

    schedules: int = 0
    met: Counter[str] = field(default_factory=Counter)
    excused: Counter[str] = field(default_factory=Counter)

    def add(self, result: Result) -> None:
        self.schedules += 1
        self.met += result.met
        self.excused += result.excused

    def __str__(self) -> str:
        met = [f"{self.met[name]:7} {name}" for name in EXPECTED]
        excused = [f"{n:7} lost: {name}" for name, n in sorted(self.excused.items())]
        return "\n".join([f"{self.schedules:7} schedules", *met, *excused])


def explore(mode: str, seeds: Iterator[int]) -> Iterator[Result]:
    """Run the schedules of some seeds."""
    with a_tenth_as_long():
        for seed in seeds:
            yield run(draw(seed, mode))


def fresh_seeds() -> Iterator[int]:
    """Yield seeds that nobody has tried before."""
    rng = random.SystemRandom()
    while True:
        yield rng.randrange(2**48)


def seeds_of_this_version() -> Iterator[int]:
    """Yield seeds that are new for every version of what is tested, and the same for each run of
    it: what fails of them will fail again, and catches a mutant whenever it is tried."""
    rng = random.Random(version())
    while True:
        yield rng.randrange(2**48)


def report(result: Result) -> str:
    """Return how to see a breach again."""
    schedule = result.schedule
    again = f"python -m tests.unit.stateful.simulation --mode {schedule.mode} "
    return f"{result.breach}\n{schedule}\nTo see it again: {again}--seed {schedule.seed} --shrink"
