"""The yellow, red and least green that most changes of some programs have."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import product
from math import ceil
from typing import NamedTuple

from lab.net.program import Program
from lab.net.stages import stages_of
from models.signals.states import MIN_GREEN_S, YELLOW_S


class SignalTimes(NamedTuple):
    """Seconds of a change of phase, and of green that a phase has at least."""

    yellow_s: int
    all_red_s: int
    min_green_s: int

    def __str__(self) -> str:
        return (
            f"{self.yellow_s} s of yellow, {self.all_red_s} s of red for all and"
            f" {self.min_green_s} s of green at least"
        )


def signal_times(programs: Iterable[Program]) -> SignalTimes:
    """Return the most common times of programs, each in whole seconds, rounded up.

    The yellow is that of a link, the red the time from a yellow to the next green, and the least
    green the ``minDur`` of a stage. What no program has is YELLOW_S, 0
    or MIN_GREEN_S.
    """
    yellow: Counter[int] = Counter()
    red: Counter[int] = Counter()
    green: Counter[int] = Counter()
    for program in programs:
        stages = stages_of(program)
        for phase in program.phases:
            if phase.get("state") in stages and "minDur" in phase:
                green[ceil(float(phase["minDur"]))] += 1
        _count_changes(program, yellow, red)
    return SignalTimes(_most(yellow, YELLOW_S), _most(red, 0), _most(green, MIN_GREEN_S))


def _count_changes(program: Program, yellow: Counter[int], red: Counter[int]) -> None:
    """Count the changes of a program; it is read twice, as it may begin within one."""
    steps = [(phase.get("state", ""), float(phase.get("duration", 0))) for phase in program.phases]
    yellow_s: defaultdict[int, float] = defaultdict(float)  # of each link, so far
    red_s: float | None = None  # since the last yellow
    before = steps[-1][0] if steps else ""
    for counted, (state, seconds) in product((0, 1), steps):
        for place, letter in enumerate(state):
            if letter in "yY":
                yellow_s[place] += seconds
            elif shown_s := yellow_s.pop(place, 0.0):
                yellow[ceil(shown_s)] += counted
                red_s = 0.0
        begins = any(
            now in "Gg" and then not in "Gg" for now, then in zip(state, before, strict=False)
        )
        if red_s is not None and begins:
            red[ceil(red_s)] += counted
            red_s = None
        if red_s is not None:
            red_s += seconds
        before = state


def _most(counts: Counter[int], otherwise: int) -> int:
    """Return the most common value, of several the least."""
    return min(counts, key=lambda value: (-counts[value], value), default=otherwise)
