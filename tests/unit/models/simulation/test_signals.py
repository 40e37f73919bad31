"""The signal keeps yellow and minimum green whatever is asked of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.signals.states import MIN_GREEN_S, YELLOW_S, yellow_state
from models.simulation.signals import Signal

PHASES = ("GGrr", "rrGG", "rGrG")


def advance(signal: Signal, seconds: int) -> list[str]:
    return [signal.advance() for _ in range(seconds)]


def test_yellow_shows_only_where_green_ends() -> None:
    assert yellow_state("GgGr", "GrrG") == "Gyyr"


def test_change_goes_through_yellow_to_the_requested_phase() -> None:
    signal = Signal(PHASES)
    advance(signal, MIN_GREEN_S)
    signal.request(1)
    assert advance(signal, YELLOW_S + 1) == ["yyrr"] * YELLOW_S + ["rrGG"]


def test_request_before_minimum_green_is_without_effect() -> None:
    signal = Signal(PHASES)
    advance(signal, MIN_GREEN_S - 1)
    signal.request(1)
    assert signal.phase == 0
    assert signal.advance() == PHASES[0]


def test_request_during_yellow_is_without_effect() -> None:
    signal = Signal(PHASES)
    advance(signal, MIN_GREEN_S)
    signal.request(1)
    signal.advance()
    signal.request(2)
    assert signal.phase == 1


def test_may_change_flag_returns_after_yellow_and_minimum_green() -> None:
    signal = Signal(PHASES)
    advance(signal, MIN_GREEN_S)
    assert signal.may_change
    signal.request(2)
    flags = []
    for _ in range(YELLOW_S + MIN_GREEN_S):
        flags.append(signal.may_change)
        signal.advance()
    assert not any(flags)
    assert signal.may_change


@pytest.mark.parametrize("phase", [-1, 3])
def test_unknown_phase_is_refused(phase: int) -> None:
    with pytest.raises(ValueError, match="not one of the 3 phases"):
        Signal(PHASES).request(phase)


@given(st.lists(st.integers(0, 2), max_size=100))
def test_any_requests_keep_minimum_green_and_full_yellow(requests: list[int]) -> None:
    signal = Signal(PHASES)
    shown = []
    for phase in requests:
        signal.request(phase)
        shown.append(signal.advance())
    stretches: list[tuple[str, int]] = []
    for state in shown:
        if stretches and stretches[-1][0] == state:
            stretches[-1] = (state, stretches[-1][1] + 1)
        else:
            stretches.append((state, 1))
    for state, seconds in stretches[:-1]:
        assert seconds == YELLOW_S if "y" in state else seconds >= MIN_GREEN_S
