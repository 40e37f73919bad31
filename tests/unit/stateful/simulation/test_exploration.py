"""Schedules that nobody has chosen keep the laws, and reach what they are drawn for."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import pytest

from tests.unit.stateful.simulation.actions import MODES, draw
from tests.unit.stateful.simulation.coverage import EXPECTED
from tests.unit.stateful.simulation.explore import (
    Exploration,
    explore,
    fresh_seeds,
    report,
    seeds_of_this_version,
)
from tests.version import VERSION_VARIABLE

OF_THIS_VERSION, FRESH = 150, 50  # of each mode; some twelve seconds


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", MODES)
def test_any_schedule_keeps_the_laws(mode: str) -> None:
    exploration = Exploration()
    fresh = 0 if VERSION_VARIABLE in os.environ else FRESH  # no mutant may die of bad luck
    seeds = itertools.chain(
        itertools.islice(seeds_of_this_version(), OF_THIS_VERSION),
        itertools.islice(fresh_seeds(), fresh),
    )
    for result in explore(mode, seeds):
        assert result.breach is None, report(result)
        exploration.add(result)
    sys.stdout.write(f"\n{mode}\n{exploration}\n")  # for pytest -s


@pytest.mark.timeout(300)
def test_schedules_reach_every_situation() -> None:
    """With the same seeds every time: whether rare situations are met must not be left to luck."""
    exploration = Exploration()
    for mode in MODES:
        for result in explore(mode, iter(range(100))):
            assert result.breach is None, report(result)
            exploration.add(result)
    missed = [name for name in EXPECTED if exploration.met[name] < 2]
    assert not missed, f"{missed}\n{exploration}"


def test_a_seed_is_the_same_schedule_and_the_same_play_in_another_process() -> None:
    program = (
        "from tests.unit.stateful.simulation.explore import explore\n"
        "for result in explore('default', iter(range(5))): print(result.trace)"
    )
    plays = [
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert plays[0] == plays[1] != ""


def test_a_schedule_is_drawn_from_its_seed_alone() -> None:
    for mode, seed in itertools.product(MODES, range(20)):
        assert draw(seed, mode) == draw(seed, mode)
    assert draw(1, "default").actions != draw(2, "default").actions
