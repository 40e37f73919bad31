"""Signals: changes take the scenario's times, or those that the safety layer allows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.sim.signal import GuardedSignal, Signal, TimedSignal
from models.signals.monitor import ConflictError, ConflictMonitor
from models.signals.safety import Limits, SafetyLayer

LAYER = SafetyLayer(("Gr", "rG"), ((None, 5), (4, None)), Limits())
NO_CONFLICTS = ConflictMonitor(2, set(), set())


def timed(*phases: str, yellow_s: int = 3, all_red_s: int = 0, min_green_s: int = 5) -> TimedSignal:
    return TimedSignal(phases or ("Gr", "rG"), yellow_s, all_red_s, min_green_s)


def advance(signal: Signal, seconds: int) -> list[str]:
    return [signal.advance() for _ in range(seconds)]


@pytest.mark.parametrize("all_red_s", [0, 2])
def test_a_change_takes_yellow_and_all_red(all_red_s):
    signal = timed(all_red_s=all_red_s, min_green_s=0)
    assert advance(signal, 2) == ["Gr"] * 2
    signal.request(1)
    assert (signal.phase, signal.may_change) == (1, False)
    assert advance(signal, 5 + all_red_s) == ["yr"] * 3 + ["rr"] * all_red_s + ["rG"] * 2


def test_green_is_counted_from_its_beginning_and_in_a_change_until_then():
    guarded = GuardedSignal(LAYER, NO_CONFLICTS)
    for signal, change_s in ((timed(all_red_s=1, min_green_s=0), 4), (guarded, 5)):
        begun_s = signal.green_s
        advance(signal, 20)
        assert signal.green_s == begun_s + 20
        signal.request(1)
        assert signal.green_s == -change_s
        advance(signal, change_s + 2)
        assert signal.green_s == 2


def test_reds_are_counted_from_the_end_of_green_to_the_next_one():
    guarded = GuardedSignal(LAYER, NO_CONFLICTS)
    for signal, change_s in ((timed(all_red_s=1, min_green_s=0), 4), (guarded, 5)):
        advance(signal, 20)
        assert tuple(signal.shown.red_s) == (0, 20)
        signal.request(1)
        advance(signal, change_s)
        assert tuple(signal.shown.red_s) == (change_s, 20 + change_s)
        advance(signal, 2)
        assert tuple(signal.shown.red_s) == (change_s + 2, 0)


def test_what_stays_green_and_what_may_turn_on_red_see_no_wrong_yellow():
    signal = timed("GGGr", "Gsrg", yellow_s=1, min_green_s=0)
    signal.request(1)
    assert advance(signal, 2) == ["Gyyr", "Gsrg"]


@pytest.mark.parametrize("phase", [-1, 2])
def test_an_unknown_phase_is_refused(phase):
    with pytest.raises(ValueError, match="not one of the 2 phases"):
        timed().request(phase)


@given(st.lists(st.integers(0, 2), max_size=100))
def test_any_requests_keep_minimum_green_and_full_yellow(requests):
    signal = timed("GGrr", "rrGG", "rGrG")
    stretches: list[tuple[str, int]] = []
    for phase in requests:
        signal.request(phase)
        state = signal.advance()
        if stretches and stretches[-1][0] == state:
            stretches[-1] = (state, stretches[-1][1] + 1)
        else:
            stretches.append((state, 1))
    for state, seconds in stretches[:-1]:
        assert seconds == 3 if "y" in state else seconds >= 5


@given(requests=st.lists(st.integers(0, 3), min_size=20, max_size=200))
def test_no_requests_make_a_cyclic_signal_step_back(requests):
    phases = ("Grrr", "rGrr", "rrGr", "rrrG")
    signal = TimedSignal(phases, yellow_s=1, all_red_s=0, min_green_s=1, cyclic=True)
    present = 0
    for phase in requests:
        signal.request(phase)
        assert signal.phase == 0 or signal.phase >= present
        present = signal.phase
        signal.advance()


def test_a_guarded_change_shows_yellow_and_all_red_and_reports_both():
    signal = GuardedSignal(LAYER, NO_CONFLICTS)
    advance(signal, 5)
    assert signal.may_change
    signal.request(1)
    assert (signal.phase, signal.may_change, signal.shown.green_s) == (1, False, -5)
    assert advance(signal, 6) == ["yr"] * 3 + ["rr"] * 2 + ["rG"]
    assert signal.shown == (1, 1, (6, 0))
    assert not signal.may_change
    advance(signal, 4)
    assert signal.may_change


def test_a_conflict_is_not_shown():
    monitor = ConflictMonitor(2, {(0, 1)}, set())
    GuardedSignal(LAYER, monitor).advance()
    broken = SafetyLayer(("GG", "rG"), ((None, 5), (4, None)), Limits())
    with pytest.raises(ConflictError):
        GuardedSignal(broken, monitor).advance()


def test_a_guarded_signal_has_no_choice_while_every_request_leads_to_the_same_phase():
    signal = GuardedSignal(LAYER, NO_CONFLICTS)
    assert not signal.has_choice, "minimum green"
    advance(signal, 5)
    assert signal.has_choice
    signal.request(1)
    assert not signal.has_choice, "a change"
    advance(signal, 10)
    assert signal.has_choice


def test_a_guarded_signal_has_no_choice_at_the_maximum_red():
    signal = GuardedSignal(LAYER, NO_CONFLICTS)
    advance(signal, 5)
    while signal.has_choice:
        advance(signal, 5)
    assert signal.may_change
    signal.request(0)
    assert signal.phase == 1, "the phase that has waited too long"
