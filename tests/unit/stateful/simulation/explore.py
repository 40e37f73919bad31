"""Plays and judges schedules, and shortens those that violate an invariant."""

from __future__ import annotations

import contextlib
import gc
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from deployments.stateful.protocol import StateError
from tests.unit.stateful.simulation.coverage import EXPECTED, situations
from tests.unit.stateful.simulation.judge import Judge, judge_recovery
from tests.unit.stateful.simulation.loop import SimulatedLoop
from tests.unit.stateful.simulation.play import Play
from tests.unit.stateful.simulation.schedule import Schedule, draw
from tests.unit.stateful.simulation.times import a_tenth_as_long, without_logs
from tests.version import version

MOST_RUNS_TO_SHRINK = 400


@dataclass
class Result:
    """What became of one schedule.

    Attributes:
        violation: of an invariant; None if there was none.
        reached: situations, see :mod:`.coverage`.
        excused: faults, and how many lost steps each has excused.
        trace: the same for the same play.
    """

    schedule: Schedule
    violation: str | None = None
    reached: Counter[str] = field(default_factory=Counter)
    excused: Counter[str] = field(default_factory=Counter)
    trace: str = ""

    def __str__(self) -> str:
        """Return the violation, and how to repeat it."""
        mode, seed = self.schedule.mode, self.schedule.seed
        named = "".join(f" --fault {name!r}" for name in self.schedule.named)
        return (
            f"{self.violation}\n{self.schedule}\n"
            f"Repeat it: python -m {__package__} --mode {mode} --seed {seed}{named} --shrink"
        )


def run(schedule: Schedule) -> Result:
    """Play a schedule, and judge what happened."""
    result = Result(schedule)
    gc.disable()  # what it collects depends on what ran before
    try:
        with contextlib.closing(SimulatedLoop()) as loop:  # type: ignore[abstract]
            play = Play(schedule, loop)
            cluster = loop.run(play.run())
            cluster.history.defects += loop.defects
            judge = Judge(cluster)
            judge.judge()
            judge_recovery(cluster, play.last)
            result.reached = situations(cluster)
            result.trace = f"{loop.callbacks} callbacks in {loop.now} s"
            result.excused = judge.excused
            if judge.excused["expired"]:
                result.reached["a run expired"] = 1
    except (AssertionError, RuntimeError, TimeoutError, StateError) as violation:
        result.violation = f"{type(violation).__name__}: {violation}"
    finally:
        gc.enable()
    return result


def explore(mode: str, seeds: Iterator[int], named: Sequence[str] = ()) -> Iterator[Result]:
    """Run the schedules of some seeds, with the named kinds of faults."""
    with a_tenth_as_long(), without_logs():
        for seed in seeds:
            yield run(draw(seed, mode, named))


def fresh_seeds() -> Iterator[int]:
    """Yield seeds that were never tried before."""
    rng = random.SystemRandom()
    while True:
        yield rng.randrange(2**48)


def seeds_of_this_version() -> Iterator[int]:
    """Yield seeds that differ between versions of the code, and not between runs of one."""
    rng = random.Random(version())
    while True:
        yield rng.randrange(2**48)


@dataclass
class Exploration:
    """Sums over schedules.

    Attributes:
        reached: number of schedules that reached each situation.
    """

    schedules: int = 0
    reached: Counter[str] = field(default_factory=Counter)
    excused: Counter[str] = field(default_factory=Counter)

    def add(self, result: Result) -> None:
        self.schedules += 1
        self.reached += result.reached
        self.excused += result.excused

    def __str__(self) -> str:
        reached = [f"{self.reached[name]:7} {name}" for name in EXPECTED]
        excused = [f"{n:7} lost: {name}" for name, n in sorted(self.excused.items())]
        return "\n".join([f"{self.schedules:7} schedules", *reached, *excused])


def shrink(result: Result) -> Result:
    """Drop actions, many at once and then one by one, while the same violation remains."""
    with a_tenth_as_long(), without_logs():
        runs, size = 0, max(1, len(result.schedule.actions) // 2)
        while runs < MOST_RUNS_TO_SHRINK:
            smaller = None
            for start in range(0, len(result.schedule.actions), size):
                runs += 1
                if (smaller := _without(result, start, size)) is not None:
                    result = smaller
                    break
            if smaller is None:
                if size == 1:
                    break
                size //= 2
    return result


def _without(result: Result, start: int, size: int) -> Result | None:
    """Run a schedule without some actions; return the result if it has the same violation."""
    actions = result.schedule.actions
    dropped, kept = actions[start : start + size], actions[:start] + actions[start + size :]
    if start < len(kept):  # the time of later actions stays as it was
        after = kept[start].after + sum(action.after for action in dropped)
        kept = (*kept[:start], kept[start]._replace(after=after), *kept[start + 1 :])
    again = run(replace(result.schedule, actions=kept))
    return again if again.violation and _invariant(again) == _invariant(result) else None


def _invariant(result: Result) -> str:
    return (result.violation or "").split("(")[0]
