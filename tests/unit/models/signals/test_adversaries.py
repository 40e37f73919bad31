"""A million decisions of policies at their worst: nothing unsafe is shown, and the judge sees."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from models.networks.shipped import SHIPPED
from models.signals.monitor import ConflictError, make_monitors
from models.signals.safety import Decision, Limits, SafetyLayer, Shown, Step
from models.signals.signal import Matrix, read_signals
from tests.unit.models.signals.adversaries import ADVERSARIES, obey
from tests.unit.models.signals.oracle import Bounds, judge
from tests.unit.models.signals.play import LIMITS, play

CENTER = "joinedS_265580996_300839357"
PHASES, MATRIX, _ = read_signals(SHIPPED)[CENTER]
BOUNDS = Bounds(LIMITS.min_green_s, LIMITS.max_red_s)


@pytest.mark.timeout(120)
def test_a_million_decisions_show_no_conflict_no_short_green_and_starve_nobody() -> None:
    assert play(1_000_000, seed=1) >= 1_000_000


def test_the_tightest_bound_that_is_accepted_holds() -> None:
    with pytest.raises(ValueError, match="safety_max_red_s must be at least 58") as refusal:
        SafetyLayer(PHASES, MATRIX, Limits(max_red_s=57.9))
    assert "to serve 4 phases in turn" in str(refusal.value)
    play(60_000, seed=2, limits=Limits(max_red_s=58))


def judged(layer: SafetyLayer, ask: str = "anything", bounds: Bounds = BOUNDS) -> None:
    monitor = make_monitors(SHIPPED)[CENTER]
    shown = obey(layer, monitor, ADVERSARIES[ask], 2000, seed=1)
    judge(*shown, PHASES, MATRIX, bounds)


def judged_by_all(layer: SafetyLayer) -> None:
    for ask in ADVERSARIES:
        judged(layer, ask)


def faster(matrix: Matrix, by_s: int) -> Matrix:
    return tuple(tuple(v if v is None else max(0, v - by_s) for v in row) for row in matrix)


class NeverForces(SafetyLayer):
    def _leaves_time(self, shown: Shown, asked: int) -> bool:
        return True


class SkipsYellow(SafetyLayer):
    def decide(self, shown: Shown, asked: int) -> Decision:
        decision = super().decide(shown, asked)
        return decision._replace(steps=decision.steps[1:])


class ForgetsTheChange(SafetyLayer):
    """Takes a change that is under way for a green that is over."""

    def decide(self, shown: Shown, asked: int) -> Decision:
        return super().decide(shown._replace(green_s=abs(shown.green_s) + 5), asked)


class ShowsBothGreens(SafetyLayer):
    def decide(self, shown: Shown, asked: int) -> Decision:
        decision = super().decide(shown, asked)
        both = "".join(
            "G" if "G" in pair else "r"
            for pair in zip(self.phases[shown.phase], self.phases[decision.phase], strict=True)
        )
        last = tuple(Step(step.after_s, both) for step in decision.steps[-1:])
        return decision._replace(steps=(*decision.steps[:-1], *last))


@pytest.mark.parametrize(
    "broken",
    [
        lambda: SafetyLayer(PHASES, MATRIX, Limits(min_green_s=4)),
        lambda: SafetyLayer(PHASES, faster(MATRIX, 1), LIMITS),
        lambda: NeverForces(PHASES, MATRIX, LIMITS),
        lambda: SkipsYellow(PHASES, MATRIX, LIMITS),
        lambda: ForgetsTheChange(PHASES, MATRIX, LIMITS),
        lambda: ShowsBothGreens(PHASES, MATRIX, LIMITS),
    ],
    ids=["short green", "short intergreen", "starves", "no yellow", "breaks off", "both green"],
)
def test_a_broken_layer_is_found_out(broken: Callable[[], SafetyLayer]) -> None:
    layer = broken()
    with pytest.raises((AssertionError, ConflictError)):
        judged_by_all(layer)


def test_the_bound_is_reached_and_not_passed() -> None:
    layer = SafetyLayer(PHASES, MATRIX, LIMITS)
    judged(layer, "always the same")
    lower = Bounds(LIMITS.min_green_s, LIMITS.max_red_s - 20)
    with pytest.raises(AssertionError, match="waited for"):
        judged(layer, "always the same", lower)
