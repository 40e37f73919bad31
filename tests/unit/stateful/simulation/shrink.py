"""Fewer actions with the same breach: what is left is what it takes."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.stateful.simulation.actions import Schedule
from tests.unit.stateful.simulation.run import Result, run

MOST_RUNS = 400


def shrink(result: Result) -> Result:
    """Drop actions, many at once and then one by one, for as long as the law stays broken."""
    runs = 0
    size = max(1, len(result.schedule.actions) // 2)
    while runs < MOST_RUNS:
        smaller = None
        for start in range(0, len(result.schedule.actions), size):
            runs += 1
            smaller = _without(result, start, size)
            if smaller is not None:
                result = smaller
                break
        if smaller is None:
            if size == 1:
                return result
            size //= 2
    return result


def _without(result: Result, start: int, size: int) -> Result | None:
    schedule: Schedule = result.schedule
    actions = schedule.actions
    dropped, kept = actions[start : start + size], actions[:start] + actions[start + size :]
    after = sum(action.after for action in dropped)
    if start < len(kept):  # what follows stays at its time
        late = kept[start]._replace(after=kept[start].after + after)
        kept = (*kept[:start], late, *kept[start + 1 :])
    again = run(replace(schedule, actions=kept))
    return again if again.breach and _law(again) == _law(result) else None


def _law(result: Result) -> str:
    return (result.breach or "").split("(")[0]
