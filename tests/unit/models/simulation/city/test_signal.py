"""Yellow, all-red and minimum green last as long as the city says."""

from __future__ import annotations

import pytest

from models.simulation.city.signal import CitySignal


def shown(signal: CitySignal, seconds: int) -> list[str]:
    return [signal.advance() for _ in range(seconds)]


def test_a_change_takes_yellow_and_all_red():
    signal = CitySignal(("Gr", "rG"), yellow_s=3, all_red_s=2, min_green_s=0)
    assert shown(signal, 2) == ["Gr"] * 2
    signal.request(1)
    assert (signal.phase, signal.may_change) == (1, False)
    assert shown(signal, 7) == ["yr"] * 3 + ["rr"] * 2 + ["rG"] * 2


def test_what_stays_green_and_what_may_turn_on_red_see_no_wrong_yellow():
    signal = CitySignal(("GGGr", "Gsrg"), yellow_s=1, all_red_s=0, min_green_s=0)
    signal.request(1)
    assert shown(signal, 2) == ["Gyyr", "Gsrg"]


def test_minimum_green_is_kept():
    signal = CitySignal(("Gr", "rG"), yellow_s=3, all_red_s=0, min_green_s=5)
    shown(signal, 4)
    signal.request(1)
    assert signal.phase == 0
    shown(signal, 1)
    signal.request(1)
    assert signal.phase == 1


def test_a_phase_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="phase 2 is not one of the 2 phases"):
        CitySignal(("Gr", "rG"), 3, 0, 0).request(2)
