"""One schedule, played and judged."""

from __future__ import annotations

import contextlib
import gc
from collections import Counter
from dataclasses import dataclass, field

from deployments.stateful.protocol import StateError
from tests.unit.stateful.simulation.actions import Schedule
from tests.unit.stateful.simulation.coverage import situations
from tests.unit.stateful.simulation.judge import Judge, judge_recovery
from tests.unit.stateful.simulation.loop import SimulatedLoop
from tests.unit.stateful.simulation.play import Play


@dataclass
class Result:
    """``breach``: the broken law, None when every law was kept.

    Attributes:
        met: situations that it reached.
        excused: faults, and how many lost steps each has excused.
        trace: tells one play from another.
    """

    schedule: Schedule
    breach: str | None = None
    met: Counter[str] = field(default_factory=Counter)
    excused: Counter[str] = field(default_factory=Counter)
    trace: str = ""


def run(schedule: Schedule) -> Result:
    """Play a schedule and judge what its clients saw."""
    result = Result(schedule)
    gc.disable()  # what it collects would depend on what ran before
    try:
        with contextlib.closing(SimulatedLoop()) as loop:  # type: ignore[abstract]
            played = Play(schedule, loop)
            loop.run(played.run())
            played.world.history.defects += loop.defects
            judge = Judge(played.world)
            judge.judge()
            judge_recovery(played.world, played.last)
            result.met = situations(played.world)
            result.trace = f"{loop.callbacks} callbacks in {loop.now} s"
            result.excused = judge.excused
            if judge.excused["expired"]:
                result.met["a run expired"] = 1
    except (AssertionError, RuntimeError, TimeoutError, StateError) as breach:
        result.breach = f"{type(breach).__name__}: {breach}"
    finally:
        gc.enable()
    return result
