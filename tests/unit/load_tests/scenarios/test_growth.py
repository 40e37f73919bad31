"""Growth after the warm-up is found, and neither the warm-up nor noise is taken for it."""

from __future__ import annotations

import random

import pytest

from load_tests.scenarios.memory import fitted_growth, judge_growth

MB = 1_000_000
MINUTES = 30


def soak(size, begin: float = 0, end: float = MINUTES) -> list[tuple[float, int]]:
    """Sample a size in MB, a function of the minute, every five seconds."""
    times = range(round(begin * 60), round(end * 60) + 1, 5)
    return [(float(at), round(size(at / 60) * MB)) for at in times]


def judged(**points: list[tuple[float, int]]) -> dict[str, bool]:
    return {each.what: each.is_met for each in judge_growth(points, 3)}


def test_the_line_rises_by_what_was_added():
    assert fitted_growth(soak(lambda minute: 100 + minute)) == pytest.approx(30 * MB)


def test_a_leak_is_found_beneath_noise_and_noise_is_no_leak():
    chance = random.Random(1)

    def leak(minute):
        return 100 + 0.4 * minute + chance.uniform(-2, 2)

    def noise(minute):
        return 100 + chance.uniform(-4, 4)

    assert judged(leak=soak(leak), noise=soak(noise)) == {"leak": False, "noise": True}


def test_a_warm_up_is_no_growth():
    assert judged(warm=soak(lambda minute: 50 + 10 * min(minute, 14))) == {"warm": True}


def test_who_came_or_went_in_the_second_half_is_not_judged():
    def grow(minute):
        return 100 * minute

    came, went = soak(grow, begin=20), soak(grow, end=25)
    assert judged(came=came, went=went, stayed=soak(lambda _: 1)) == {"stayed": True}


@pytest.mark.parametrize("points", [{}, {"seldom": [(0.0, 1), (900.0, 1), (1800.0, 1)]}])
def test_a_soak_that_shows_nothing_is_missed(points):
    assert judged(**points) == {"every process": False}
