"""Random schedules violate no invariant, and reach what they are drawn for.

Each schedule draws one of three models, whose states differ in shape and data type.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import pytest

from tests.unit.stateful.simulation.coverage import EXPECTED
from tests.unit.stateful.simulation.explore import (
    Exploration,
    explore,
    seeds_of_this_version,
)
from tests.unit.stateful.simulation.history import FORMS
from tests.unit.stateful.simulation.schedule import MODES, draw

SCHEDULES = 200  # of each mode


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", MODES)
def test_random_schedules_violate_no_invariant(mode):
    """Every run of one version plays the same schedules; ``make soak`` explores others."""
    exploration = Exploration()
    for result in explore(mode, itertools.islice(seeds_of_this_version(), SCHEDULES)):
        assert result.violation is None, str(result)
        exploration.add(result)
    sys.stdout.write(f"\n{mode}\n{exploration}\n")  # for pytest -s


@pytest.mark.timeout(300)
def test_schedules_reach_every_situation():
    """The seeds are the same every time, so that rare situations do not depend on luck."""
    exploration = Exploration()
    for mode in MODES:
        for result in explore(mode, iter(range(100))):
            assert result.violation is None, str(result)
            exploration.add(result)
    missed = [name for name in EXPECTED if exploration.reached[name] < 2]
    assert not missed, f"{missed}\n{exploration}"


def test_a_seed_gives_the_same_schedule_and_the_same_play_in_another_process():
    program = (
        "from tests.unit.stateful.simulation.explore import explore\n"
        "for result in explore('memory', iter(range(5))): print(result.trace)"
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


def test_schedules_are_drawn_for_every_form_of_states():
    for mode in MODES:
        assert {draw(seed, mode).form for seed in range(50)} == set(FORMS)
        assert draw(1, mode) == draw(1, mode) != draw(2, mode)
