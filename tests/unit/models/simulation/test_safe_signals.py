"""The simulation's signal behind the layer: what it shows second by second, and who watches."""

from __future__ import annotations

import pytest

from models.signals.monitor import ConflictError, ConflictMonitor
from models.signals.safety import Limits, SafetyLayer
from models.simulation.safe_signals import SafeSignal

PHASES = ("Gr", "rG")
LAYER = SafetyLayer(PHASES, ((None, 5), (4, None)), Limits())
NO_CONFLICTS = ConflictMonitor(2, set(), set())


def advance(signal: SafeSignal, seconds: int) -> list[str]:
    return [signal.advance() for _ in range(seconds)]


def test_a_change_goes_over_yellow_and_all_red_and_is_told_as_it_goes() -> None:
    signal = SafeSignal(LAYER, NO_CONFLICTS)
    advance(signal, 5)
    assert signal.may_change
    signal.request(1)
    assert (signal.phase, signal.may_change, signal.shown.green_s) == (1, False, -5)
    assert advance(signal, 6) == ["yr"] * 3 + ["rr"] * 2 + ["rG"]
    assert signal.shown == (1, 1, [6, 0])
    assert not signal.may_change
    advance(signal, 4)
    assert signal.may_change


def test_requests_during_a_change_and_minimum_green_are_without_effect() -> None:
    signal = SafeSignal(LAYER, NO_CONFLICTS)
    advance(signal, 5)
    signal.request(1)
    for _ in range(9):
        advance(signal, 1)
        signal.request(0)
        assert signal.phase == 1
    advance(signal, 1)
    signal.request(0)
    assert signal.phase == 0


def test_a_phase_that_waits_too_long_is_shown_unasked() -> None:
    signal = SafeSignal(LAYER, NO_CONFLICTS)
    states = []
    for _ in range(40):
        signal.request(0)
        states += advance(signal, 5)
    assert states.index("rG") <= LAYER.limits.max_red_s
    assert states[-1] == "Gr"


def test_a_conflict_is_not_shown() -> None:
    monitor = ConflictMonitor(2, {(0, 1)}, set())
    SafeSignal(LAYER, monitor).advance()
    broken = SafetyLayer(("GG", "rG"), ((None, 5), (4, None)), Limits())
    with pytest.raises(ConflictError):
        SafeSignal(broken, monitor).advance()
