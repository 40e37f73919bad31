"""Each kind of fault finds the defect that it is there for, within a few random schedules."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.unit.stateful.simulation.explore import explore

MOST_SCHEDULES = 40


class Planted(NamedTuple):
    """A defect.

    Attributes:
        mode: in which it violates an invariant.
        faults: kinds that find it.
        plant: puts it into the engine.
        violation: a part of the text.
    """

    mode: str
    faults: tuple[str, ...]
    plant: Callable[[pytest.MonkeyPatch], None]
    violation: str


def leases_end_by_a_clock_that_stops_in_a_suspend(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


DEFECTS = [
    Planted(
        "memory",
        ("suspend replica",),
        leases_end_by_a_clock_that_stops_in_a_suspend,
        "is lost",
    ),
]


@pytest.mark.parametrize("planted", DEFECTS, ids=lambda planted: planted.plant.__name__)
def test_a_fault_finds_its_defect(planted, monkeypatch):
    planted.plant(monkeypatch)
    for result in explore(planted.mode, iter(range(MOST_SCHEDULES)), planted.faults):
        if result.violation is not None:
            assert planted.violation in result.violation, str(result)
            return
    pytest.fail(f"no schedule has found it: {planted.faults}")
