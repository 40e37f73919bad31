"""Broken detectors are found by what cannot be, and their readings replaced by estimates."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from models.networks.form import DetectorLimits
from models.networks.network import network_of
from models.signals.diagnosis import (
    AT_LIMIT,
    DISCHARGED,
    HIGHEST,
    TYPICAL,
    JunctionDiagnosis,
    failed_lanes,
    read_diagnoses,
)
from tests import cities

CAPACITY = 20.0
LIMITS = DetectorLimits(no_activity=10, stuck=6, frozen=30, recall=0)
MAIN, SECOND, SIDE = range(3)  # two lanes that are green in phase 0, one in phase 1


def junction(limits: DetectorLimits = LIMITS, **of_side: object) -> JunctionDiagnosis:
    lanes: dict[str, Any] = dict.fromkeys(("main", "second", "side"), CAPACITY)
    if of_side:
        lanes["side"] = {"capacity": CAPACITY, "detector": of_side}
    file = cities.crossing(("GGr", "rrG"), lanes, [(lane, "out") for lane in lanes])
    file = file.model_copy(update={"detectors": limits})
    (diagnosis,) = read_diagnoses(network_of(file))
    return diagnosis


class Crossing:
    """A junction in rush hour whose lanes fill by a vehicle a request in red, and empty in green.

    Args:
        broken: by lane, what its detector reads instead of its queue.
    """

    def __init__(
        self,
        diagnosis: JunctionDiagnosis | None = None,
        broken: dict[int, Callable[[int], float]] | None = None,
        arrives: Sequence[int] = (1, 1, 1),
    ) -> None:
        self.diagnosis = diagnosis or junction()
        self.memory = [0.0] * self.diagnosis.size
        self.broken = broken or {}
        self.arrives = arrives
        self.queues = [0, 0, 0]
        self.now = 0
        self.faults = [0, 0, 0]
        self.observation: list[float] = []

    def ask(self, requests: int, cycle: int = 4) -> None:
        for _ in range(requests):
            phase = self.now // cycle % 2
            for lane, arrives in enumerate(self.arrives):
                is_green = (lane == SIDE) == (phase == 1)
                self.queues[lane] = 0 if is_green else self.queues[lane] + arrives
            readings = [queue / CAPACITY for queue in self.queues]
            for lane, reads in self.broken.items():
                readings[lane] = reads(self.now)
            self.show(phase, readings)

    def show(self, phase: int | None, readings: Sequence[float]) -> None:
        shown = [float(phase == each) for each in range(2)]
        observation = [*shown, 1.0, *readings]
        made = self.diagnosis(self.memory, observation)
        self.memory, self.observation, self.faults = made
        self.now += 1

    @property
    def found(self) -> dict[str, str]:
        return dict(failed_lanes(("main", "second", "side"), self.faults))


def test_working_detectors_are_trusted_and_what_they_read_is_passed_on():
    crossing = Crossing()
    for _ in range(200):
        crossing.ask(1)
        assert crossing.found == {}
        assert crossing.observation[3:] == [queue / CAPACITY for queue in crossing.queues]


@pytest.mark.parametrize(
    ("broken", "not_yet", "then", "found"),
    [
        ({SIDE: lambda now: 0.0}, 12, 100, {"side": "no_activity"}),
        ({MAIN: lambda now: 1.0}, 8, 16, {"main": "stuck"}),
        ({MAIN: lambda now: 0.5}, 16, 24, {"main": "stuck"}),
        ({MAIN: lambda now: 0.1}, 80, 88, {"main": "stuck"}),
        ({SECOND: lambda now: 0.9 * (now % 3 == 0)}, 7, 10, {"second": "erratic"}),
        ({MAIN: lambda now: 0.2 * (now % 2) - 0.1}, 0, 400, {"main": "impossible"}),
        ({MAIN: lambda now: 0.0 if now == 100 else 0.5}, 0, 400, {"main": "stuck"}),
        (
            {MAIN: lambda now: 0.5, SECOND: lambda now: -1.0},
            *(0, 60, {"main": "stuck", "second": "impossible"}),
        ),
    ],
    ids=[
        *("zero in red while others fill", "full", "half full", "a tenth full", "often leaps"),
        *("changes but still fails", "a glitch repairs nothing", "two at once"),
    ],
)
def test_a_broken_detector_is_found_in_time_and_not_too_soon(broken, not_yet, then, found):
    crossing = Crossing(broken=broken)
    crossing.ask(not_yet)
    assert crossing.found == {}
    crossing.ask(then)
    assert crossing.found == found


def test_a_queue_that_stays_the_same_through_a_long_red_is_not_stuck():
    crossing = Crossing(arrives=(1, 1, 0))
    crossing.show(1, [0.1, 0.2, 0.3])
    for n in range(100):  # phase 0 is green throughout: only its lanes change
        crossing.show(0, [n % 2 / 10, n % 3 / 10, 0.3])
    assert crossing.found == {}


def test_a_single_leap_is_forgotten():
    crossing = Crossing()
    for _ in range(6):
        crossing.ask(100)
        crossing.show(1, [0.9, 0.0, 0.0])
    assert crossing.found == {}


@pytest.mark.parametrize("reads", [-0.1, HIGHEST + 0.1, 1e38])
def test_an_impossible_reading_is_replaced_at_once(reads):
    crossing = Crossing(broken={SECOND: lambda now: reads})
    crossing.ask(1)
    assert crossing.found == {"second": "impossible"}
    assert crossing.observation[3 + SECOND] == crossing.observation[3 + MAIN]
    full = Crossing()
    full.show(1, [1.2, 0.0, 0.0])
    assert (full.found, full.observation[3 + MAIN]) == ({}, 1.2), "more than the capacity"


@pytest.mark.parametrize(
    ("reads", "after"), [(0.3, LIMITS.frozen - 1), (0.0, 2 * LIMITS.frozen - 1)]
)
def test_if_no_detector_changes_all_are_frozen_until_one_does(reads, after):
    crossing = Crossing()  # one that reads zero may be empty, and has twice as long
    for _ in range(after):
        crossing.show(0, [0.0, 0.0, reads])
    assert crossing.found == {}
    crossing.show(0, [0.0, 0.0, reads])
    assert crossing.found == dict.fromkeys(("main", "second", "side"), "frozen")
    crossing.show(0, [0.1, 0.0, reads])
    assert crossing.found == {}


OFF = DetectorLimits(no_activity=0, stuck=0, erratic=0, frozen=0, recall=0)
BROKEN: dict[int, Callable[[int], float]] = {
    MAIN: lambda now: 1.0,
    SECOND: lambda now: now % 2,
    SIDE: lambda now: 0,
}


@pytest.mark.parametrize(
    "crossing",
    [
        Crossing(junction(no_activity=0), arrives=(1, 1, 0)),
        Crossing(junction(DetectorLimits(no_activity=10, frozen=0)), arrives=(0, 0, 0)),
        Crossing(junction(OFF), BROKEN),
    ],
    ids=["an empty lane without its limit", "no traffic anywhere", "all limits off"],
)
def test_nothing_is_concluded_where_there_is_no_limit_or_no_traffic(crossing):
    crossing.ask(2000)
    assert crossing.found == {}


def test_an_estimate_is_at_least_the_mean_of_working_lanes_with_the_same_green():
    crossing = Crossing(broken={MAIN: lambda now: 1.0}, arrives=(1, 5, 1))
    crossing.ask(40)
    assert crossing.found == {"main": "stuck"}
    seen = []
    for _ in range(8):
        crossing.ask(1)
        estimate, second = crossing.observation[3 + MAIN], crossing.queues[SECOND] / CAPACITY
        assert estimate >= second
        seen.append(estimate == second)
    assert any(seen)


def test_the_expected_queue_grows_in_red_with_the_traffic_and_is_discharged_in_green():
    crossing = Crossing(broken={SIDE: lambda now: 1.0})
    crossing.ask(43)
    assert crossing.found == {"side": "stuck"}
    traffic = crossing.memory[2]
    assert traffic == pytest.approx(1, abs=0.2), "one vehicle arrives per request and red lane"
    expected = crossing.observation[3 + SIDE] * CAPACITY
    for _ in range(4):
        crossing.show(0, [0.0, 0.0, 1.0])
        # no lane that works is red: nothing is learnt of the traffic
        expected += traffic * AT_LIMIT / LIMITS.no_activity
        assert crossing.observation[3 + SIDE] * CAPACITY == pytest.approx(expected)
    for _ in range(12):
        crossing.show(1, [0.0, 0.0, 1.0])
        expected = max(0, expected - DISCHARGED)
        assert crossing.observation[3 + SIDE] * CAPACITY == pytest.approx(expected)
    assert expected == 0


def test_a_busier_lane_is_expected_to_have_a_longer_queue():
    estimates = []
    for limit in (9, 36):  # twice the average traffic, and half of it
        crossing = Crossing(junction(no_activity=limit), broken={SIDE: lambda now: 1.0})
        crossing.ask(28)
        assert crossing.found == {"side": "stuck"}
        estimates.append(crossing.observation[3 + SIDE])
    assert estimates[0] == pytest.approx(4 * estimates[1])


def test_a_lane_that_is_empty_in_a_long_red_is_assumed_to_have_a_queue_after_all():
    crossing = Crossing(junction(DetectorLimits(recall=20)))
    crossing.show(1, [0.0, 0.0, 0.0])
    for n in range(30):
        crossing.show(0, [n % 2 / 10, 0.0, 0.0])
        assert (crossing.observation[3 + SIDE] > 0) == (n + 1 > 20)
    assert crossing.found == {}


def test_such_a_queue_is_assumed_the_sooner_the_more_traffic_there_is():
    waits = []
    for limit in (0, 40, 10):
        crossing = Crossing(junction(DetectorLimits(recall=20, no_activity=limit)))
        crossing.show(1, [0.0, 0.0, 0.0])
        while crossing.observation[3 + SIDE] == 0:
            crossing.show(0, [crossing.now % 2 / 10, 0.0, 0.0])
        assert crossing.found == {}
        waits.append(crossing.now - 1)
    assert waits == [21, 20, 18]


def test_nothing_is_learnt_of_the_traffic_from_a_first_observation():
    crossing = Crossing()
    crossing.show(1, [0.5, 0.5, 0.0])
    assert crossing.memory[2] == TYPICAL


def test_an_idle_lane_with_the_same_green_does_not_hide_the_expected_queue():
    crossing = Crossing(broken={MAIN: lambda now: 1.0}, arrives=(1, 0, 1))
    crossing.ask(40)
    assert crossing.found == {"main": "stuck"}
    seen = []
    for _ in range(8):
        crossing.ask(1)
        seen.append(crossing.observation[3 + MAIN])
    assert crossing.queues[SECOND] == 0
    assert max(seen) > 0.05


def test_a_repaired_detector_is_trusted_again_after_enough_changes():
    crossing = Crossing(broken={MAIN: lambda now: 0.5})
    crossing.ask(80)
    assert crossing.found == {"main": "stuck"}
    crossing.broken.clear()
    crossing.ask(16)
    assert crossing.found == {"main": "stuck"}
    crossing.ask(60)
    assert crossing.found == {}


def test_a_junction_that_asks_rarely_and_irregularly_is_not_accused():
    crossing = Crossing()
    for pause in (1, 7, 3, 29, 2, 11) * 50:  # cycles pass between two requests
        crossing.now += pause
        crossing.queues = [(crossing.now * lane) % 7 for lane in (3, 4, 5)]
        crossing.show(crossing.now % 2, [queue / CAPACITY for queue in crossing.queues])
        assert crossing.found == {}


@pytest.mark.parametrize("shown", [[0.0, 0.0], [1.0, 1.0], [0.5, 0.5], [-1.0, 2.0]])
def test_without_a_single_phase_nothing_is_concluded_from_green_and_red(shown):
    diagnosis = junction(DetectorLimits(no_activity=1, stuck=1, frozen=0))
    memory = [0.0] * diagnosis.size
    for n in range(100):
        memory, _, faults = diagnosis(memory, [*shown, 1.0, n % 2 / 10, 0.5, 0.0])
    assert faults == [0, 0, 0]


def test_a_lane_has_its_own_limits_and_otherwise_those_of_the_network():
    crossing = Crossing(junction(stuck=3), broken={n: lambda now: 0.5 for n in (MAIN, SIDE)})
    crossing.ask(24)
    assert crossing.found == {"side": "stuck"}
    crossing.ask(24)
    assert crossing.found == {"main": "stuck", "side": "stuck"}


def test_neither_memory_nor_observation_is_written_into():
    diagnosis = junction()
    memory, observation = [0.0] * diagnosis.size, [1.0, 0.0, 1.0, -1.0, 0.2, 0.3]
    before = list(memory), list(observation)
    diagnosis(memory, observation)
    assert (memory, observation) == before


def test_a_network_that_does_not_say_when_lanes_are_green_is_refused():
    with pytest.raises(ValueError, match="read without its signals"):
        read_diagnoses(replace(cities.small_city(), file=None))
    with pytest.raises(ValueError, match="junction a has no states"):
        read_diagnoses(cities.city_of(cities.entry("a", 0)))
