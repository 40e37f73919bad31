"""Memory of processes: samples, names, and growth after the warm-up."""

import random
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from load_tests.scenarios.memory import MemoryWatch, fitted_growth


def test_each_process_is_sampled_while_it_lives_and_named_by_its_command():
    idle = [sys.executable, "-c", "input()"]
    with subprocess.Popen(idle, stdin=subprocess.PIPE) as child:
        processes = [psutil.Process(), psutil.Process(child.pid)]
        watch = MemoryWatch(lambda: processes)
        watch.sample()
        child.kill()
        child.wait()
        watch.sample()
    own, of_child = sorted(watch.points.values(), key=len, reverse=True)
    assert (len(own), len(of_child)) == (2, 1)
    assert min(size for _, size in own + of_child) > 100_000
    assert own[0][0] < own[1][0]
    assert f"{Path(sys.executable).name} -c input() ({child.pid})" in watch.points


MB = 1_000_000
MINUTES = 30


def soak(size, begin: float = 0, end: float = MINUTES) -> list[tuple[float, int]]:
    """Sample a size in MB, a function of the minute, every five seconds."""
    times = range(round(begin * 60), round(end * 60) + 1, 5)
    return [(float(at), round(size(at / 60) * MB)) for at in times]


def judged(**points: list[tuple[float, int]]) -> dict[str, bool]:
    watch = MemoryWatch(list)
    watch.points = points
    return {each.what: each.is_met for each in watch.judge(3)}


def test_the_line_rises_by_what_was_added():
    assert fitted_growth(soak(lambda minute: 100 + minute)) == pytest.approx(30 * MB)


def test_a_leak_alone_is_found_beneath_noise_and_after_the_warm_up():
    chance = random.Random(1)
    sizes = {
        "leak": lambda minute: 100 + 0.4 * minute + chance.uniform(-2, 2),
        "noise": lambda minute: 100 + chance.uniform(-4, 4),
        "warm": lambda minute: 50 + 10 * min(minute, 14),
    }
    verdicts = judged(**{name: soak(size) for name, size in sizes.items()})
    assert verdicts == {"leak": False, "noise": True, "warm": True}


def test_who_came_or_went_in_the_second_half_is_not_judged():
    came, went = soak(lambda at: 100 * at, begin=20), soak(lambda at: 100 * at, end=25)
    assert judged(came=came, went=went, stayed=soak(lambda _: 1)) == {"stayed": True}


@pytest.mark.parametrize("points", [{}, {"seldom": [(0.0, 1), (900.0, 1), (1800.0, 1)]}])
def test_a_soak_that_shows_nothing_is_missed(points):
    assert judged(**points) == {"every process": False}
