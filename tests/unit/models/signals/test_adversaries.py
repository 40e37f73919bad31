"""A million decisions of policies at their worst: nothing unsafe is shown, and the judge sees."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from models.networks.file import network_as_json
from models.networks.form import NetworkFile
from models.networks.network import network_of
from models.networks.shipped import SHIPPED, SHIPPED_FILE
from models.signals.monitor import ConflictError, ConflictMonitor, make_monitors
from models.signals.safety import Limits, SafetyLayer, Shown, Step
from models.signals.signal import Matrix, Signal, read_signals
from tests.unit.models.signals.adversaries import ADVERSARIES, obey
from tests.unit.models.signals.crossings import walked_junction
from tests.unit.models.signals.oracle import Bounds, judge
from tests.unit.models.signals.play import CYCLIC, LIMITS, play

CENTER = "joinedS_265580996_300839357"
SIGNAL = read_signals(SHIPPED)[CENTER]
PHASES, MATRIX = SIGNAL.phases, SIGNAL.intergreen
BOUNDS = Bounds(LIMITS.min_green_s, LIMITS.max_red_s, LIMITS.max_walk_wait_s)

WALKED = walked_junction()
((_, CROSSED),) = read_signals(WALKED).items()
WALKS = CROSSED.walk_s


@pytest.mark.timeout(120)
def test_a_million_decisions_show_no_conflict_no_short_green_and_starve_nobody():
    assert play(1_000_000, seed=1) >= 1_000_000


@pytest.mark.timeout(120)
@pytest.mark.parametrize("red_yellow_s", [0, 2])
def test_no_yellow_of_a_fast_approach_is_cut_short_nor_red_and_yellow_before_a_green(red_yellow_s):
    made = json.loads(network_as_json(SHIPPED_FILE)) | {"red_yellow_s": red_yellow_s}
    for junction in made["junctions"]:
        for number, link in enumerate(junction["links"]):
            link["yellow_s"] = 3 + number % 3
    fast = network_of(NetworkFile.model_validate(made))
    assert play(100_000, seed=1, network=fast) >= 100_000


@pytest.mark.timeout(120)
def test_no_walk_is_cut_short_or_beside_a_conflict_and_every_crossing_is_served_in_time():
    assert play(200_000, seed=1, network=WALKED) >= 200_000
    tightest = Limits(max_walk_wait_s=92)  # one more turn than the vehicles need
    play(60_000, seed=2, network=WALKED, limits=tightest)
    with pytest.raises(ValueError, match="safety_max_pedestrian_wait_s must be at least 92 to ser"):
        play(1, seed=2, network=WALKED, limits=Limits(max_walk_wait_s=91.9))


def test_the_tightest_bound_that_is_accepted_holds():
    with pytest.raises(ValueError, match="safety_max_red_s must be at least 58") as refusal:
        SafetyLayer(PHASES, MATRIX, Limits(max_red_s=57.9))
    assert "to serve 4 phases in turn" in str(refusal.value)
    play(60_000, seed=2, limits=Limits(max_red_s=58))


@pytest.mark.timeout(120)
def test_no_request_breaks_the_cyclic_order_and_every_phase_is_still_served_in_time():
    assert play(200_000, seed=1, limits=CYCLIC) >= 200_000
    play(60_000, seed=1, network=WALKED, limits=CYCLIC)
    play(60_000, seed=2, limits=Limits(max_red_s=58, cyclic=True))


@pytest.mark.parametrize("ask", ["anything", "step back"])
def test_the_judge_finds_a_phase_out_of_order(ask):
    bounds = replace(BOUNDS, cyclic=True)
    judged(SafetyLayer(PHASES, MATRIX, CYCLIC), ask, bounds)
    with pytest.raises(AssertionError, match="phases out of order"):
        judged(SafetyLayer(PHASES, MATRIX, LIMITS), ask, bounds)


def judged(layer: SafetyLayer, ask: str = "anything", bounds: Bounds = BOUNDS) -> None:
    monitor = make_monitors(SHIPPED)[CENTER]
    shown = obey(layer, monitor, ADVERSARIES[ask], 2000, seed=1)
    judge(*shown, SIGNAL, bounds)


def judged_by_all(layer: SafetyLayer) -> None:
    for ask in ADVERSARIES:
        judged(layer, ask)


def faster(matrix: Matrix, by_s: int) -> Matrix:
    return tuple(tuple(v if v is None else max(0, v - by_s) for v in row) for row in matrix)


DECIDE, SHOW = SafetyLayer.decide, SafetyLayer._show
BROKEN: dict[str, tuple[str, Callable[..., Any]]] = {
    "starves": ("_leaves_time", lambda layer, shown, asked: True),
    "no yellow": ("_between", lambda layer, old, new, green_s: ()),
    "all green": ("_between", lambda layer, old, new, green_s: [Step(0, "G" * len(old))]),
    # A change that is under way is taken for a green that is over.
    "breaks off": ("decide", lambda layer, shown, asked: DECIDE(layer, over(shown), asked)),
}
# The end of the present phase is taken for the only one.
FORGETS = lambda layer, shown, *more: SHOW(layer, shown._replace(red_s=[1e3] * 3), *more)  # noqa: E731


def over(shown: Shown) -> Shown:
    return shown._replace(green_s=abs(shown.green_s) + 5)


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_layer_is_found_out(broken, monkeypatch):
    monkeypatch.setattr(SafetyLayer, *BROKEN[broken])
    with pytest.raises((AssertionError, ConflictError)):
        judged_by_all(SafetyLayer(PHASES, MATRIX, LIMITS))


@pytest.mark.parametrize(("least_s", "sooner_s"), [(4, 0), (5, 1)], ids=["green", "intergreen"])
def test_a_layer_with_too_short_times_is_found_out(least_s, sooner_s):
    with pytest.raises((AssertionError, ConflictError)):
        judged_by_all(SafetyLayer(PHASES, faster(MATRIX, sooner_s), Limits(min_green_s=least_s)))


def walking_always(phases: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        "".join("G" if link in WALKS else letter for link, letter in enumerate(phase))
        for phase in phases
    )


def hasty(times: Matrix, walks: Mapping[int, float]) -> Matrix:
    """Return intergreen times that leave pedestrians a second less to clear a crossing."""
    shorter = faster(times, 1)
    return tuple(shorter[row] if row in walks else times[row] for row in range(len(times)))


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        (
            lambda phases, times: SafetyLayer(phases, times, LIMITS, dict.fromkeys(WALKS, 6.0)),
            r"link \d+: \d.* s of green of 7.0",
        ),
        (
            lambda phases, times: SafetyLayer(phases, hasty(times, WALKS), LIMITS, WALKS),
            r"links \d+ and \d+: \d.* s of \d",
        ),
        (
            lambda phases, times: SafetyLayer(walking_always(phases), times, LIMITS, WALKS),
            "beside a walk",
        ),
        (
            lambda phases, times: SafetyLayer(
                phases, times, replace(LIMITS, max_walk_wait_s=None), WALKS
            ),
            r"crossing \d+ waited",
        ),
    ],
    ids=["short walk", "short clearance", "beside vehicles", "long wait"],
)
def test_a_layer_that_is_broken_for_pedestrians_is_found_out(broken, found):
    layer = broken(CROSSED.phases, CROSSED.intergreen)
    with pytest.raises(AssertionError, match=found):
        judge_alone(layer, CROSSED, BOUNDS)


def judge_alone(layer: SafetyLayer, signal: Signal, bounds: Bounds) -> None:
    """Judge what a monitor without conflicts lets pass."""
    monitor = ConflictMonitor(len(signal.phases[0]), set(), set())
    for ask in ADVERSARIES.values():
        judge(*obey(layer, monitor, ask, 2000, seed=1), signal, bounds)


@pytest.mark.parametrize(
    "phases",
    [("Grr", "rGr", "rrG"), ("Grg", "rGr", "rrg")],
    ids=["conflict", "gave way before"],
)
def test_a_long_crossing_is_cleared_even_where_a_short_phase_is_shown_in_between(
    phases, monkeypatch
):
    times = ((None, 3, 20), (3, None, 3), (20, 3, None))
    signal = Signal(phases, times, walk_s={0: 7.0})
    made = signal.phases, times, LIMITS, signal.walk_s
    judge_alone(SafetyLayer(*made), signal, BOUNDS)
    monkeypatch.setattr(SafetyLayer, "_show", FORGETS)
    with pytest.raises(AssertionError, match=r"links 0 and 2: 11\.\d+ s of 20"):
        judge_alone(SafetyLayer(*made), signal, BOUNDS)
