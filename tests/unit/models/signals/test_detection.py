"""Readings of detectors become the vehicles of each lane, by the methods that are documented."""

from typing import Any

import pytest

from models.networks.form import JunctionEntry
from models.signals.detection import (
    SATURATION_PER_S,
    SPEED_MPS,
    TYPICAL_PER_S,
    JunctionDetection,
    LaneMemory,
    Reading,
)
from tests import cities

INTERVAL_S = 5.0
RED, GREEN = 1, 0  # phases, as lane a_0 sees them
EMPTY = Reading(0.0, 0)
STOP_LINE = {"id": "stop", "kind": "stop_line", "lanes": ["a_0"], "distance_m": 1}
ADVANCE = {"id": "advance", "kind": "advance", "lanes": ["a_0"], "distance_m": 60}


def crossing(*detectors: dict[str, Any], lanes: int = 1) -> JunctionDetection:
    """Return the detection of lanes a_0 and so on, green in phase 0, and of b_0, in phase 1.

    Each lane has room for 40 vehicles, and 8 of them before an advance detector.
    """
    names = [*(f"a_{n}" for n in range(lanes)), "b_0"]
    states = "G" * lanes + "r", "r" * lanes + "G"
    links = [(name, "c_0") for name in names]
    network = cities.crossing(states, dict.fromkeys(names, 40), links, detectors=detectors)
    return JunctionDetection(network.junctions[0])


def after(detection: JunctionDetection, **remembered: float) -> tuple[LaneMemory, ...]:
    """Return a memory in which every lane has these values."""
    return tuple(each._replace(**remembered) for each in detection.start)


def once(advance: Reading, stop: Reading, phase: int, shown_s: float, **remembered: float) -> Any:
    """Return the estimate of a lane with both detectors."""
    detection = crossing(STOP_LINE, ADVANCE)
    readings = {"advance": advance, "stop": stop}
    return detection(after(detection, **remembered), readings, phase, shown_s, INTERVAL_S)


def test_the_balance_is_what_came_in_less_what_left():
    remembered = {"vehicles": 5, "green_s": 20, "discharged": 12}
    estimate = once(Reading(0.1, 1), Reading(0.6, 3), GREEN, 25, **remembered)
    assert estimate.memory[0].vehicles == 3
    assert estimate.memory[0].discharged == 15


def test_in_red_vehicles_between_the_detectors_stand_but_for_those_that_are_still_on_the_way():
    estimate = once(Reading(0.1, 1), Reading(1.0, 0), RED, 20, vehicles=3)
    assert estimate.memory[0].vehicles == 4
    on_the_way = min(1, 60 / (SPEED_MPS * INTERVAL_S))
    assert estimate.standing[0] == pytest.approx(4 - on_the_way)


def test_in_green_a_queue_begins_to_move_sooner_than_it_leaves():
    estimate = once(EMPTY, Reading(0.7, 2), GREEN, 5, vehicles=8)
    assert estimate.memory[0].vehicles == 6
    assert estimate.standing[0] == 8 - 5, "one vehicle begins to move in each second"


def test_a_negative_balance_is_clipped():
    estimate = once(EMPTY, Reading(0.2, 4), GREEN, 3, vehicles=1, green_s=2)
    assert estimate.memory[0].vehicles >= 0
    assert estimate.standing[0] >= 0


@pytest.mark.parametrize(
    ("phase", "stop", "left"),
    [
        (GREEN, Reading(0.0, 0), 0),
        (GREEN, Reading(0.1, 1), 0),
        (GREEN, Reading(0.5, 3), 4),
        (GREEN, Reading(1.0, 0), 7),
        (RED, Reading(0.0, 0), 0),
        (RED, Reading(0.5, 0), 7),
    ],
    ids=[
        *("empty in green", "long headways in green", "a queue in green", "blocked in green"),
        *("empty in red", "waiting in red"),
    ],
)
def test_drift_is_reset_where_the_stop_line_shows_that_there_is_no_queue(phase, stop, left):
    before_s = 20.0 if phase == GREEN else 0.0
    estimate = once(EMPTY, stop, phase, 25, vehicles=7, green_s=before_s)
    assert estimate.memory[0].vehicles == left
    if not left:
        assert estimate.standing[0] == 0


def test_a_vehicle_that_was_not_counted_is_known_from_its_presence():
    assert once(EMPTY, Reading(1.0, 0), RED, 20).standing[0] == 1


def test_a_queue_on_the_advance_detector_reaches_there_and_grows_by_the_mean_flow():
    detection = crossing(STOP_LINE, ADVANCE)
    readings = {"advance": Reading(1.0, 0), "stop": Reading(1.0, 0)}
    memory = after(detection, vehicles=2, per_s=0.2)
    once = detection(memory, readings, RED, 20, INTERVAL_S)
    assert once.memory[0].vehicles == pytest.approx(60 / 7.5 + 1)
    flow = once.memory[0].per_s
    twice = detection(once.memory, readings, RED, 25, INTERVAL_S)
    assert twice.memory[0].vehicles == pytest.approx(60 / 7.5 + 1 + flow * INTERVAL_S)
    passed = {"advance": Reading(0.1, 0), "stop": Reading(0.6, 0)}
    assert detection(twice.memory, passed, RED, 30, INTERVAL_S).memory[0].vehicles == 60 / 7.5


def test_the_estimate_never_exceeds_the_capacity():
    detection = crossing(STOP_LINE, ADVANCE)
    memory, readings = detection.start, {"advance": Reading(1.0, 0), "stop": Reading(1.0, 0)}
    for n in range(1, 400):
        memory, standing, vehicles = detection(memory, readings, RED, n * INTERVAL_S, INTERVAL_S)
        assert standing[0] <= 40
        assert vehicles[0] <= 40


def test_density_upstream_is_occupancy_by_the_effective_length():
    detection = crossing(ADVANCE | {"length_m": 2})
    memory = after(detection, per_s=0.1)
    for n in range(1, 500):  # the memory of five minutes
        reading = {"advance": Reading(0.07, 0)}
        memory, standing, vehicles = detection(memory, reading, GREEN, n * INTERVAL_S, INTERVAL_S)
    per_m = 0.07 / (5 + 2)
    assert memory[0].per_m == pytest.approx(per_m, rel=0.001)
    assert vehicles[0] - standing[0] == pytest.approx(per_m * (40 * 7.5 - 60), rel=0.001)


def test_without_an_advance_detector_the_queue_grows_by_the_mean_flow_at_the_stop_line():
    detection = crossing(STOP_LINE)
    memory = after(detection, green_s=5)
    for n in range(400):
        count = 1 if n % 4 == 0 else 0
        memory = detection(memory, {"stop": Reading(0.1, count)}, GREEN, 5, INTERVAL_S).memory
    assert memory[0].per_s == pytest.approx(0.05, rel=0.1)
    flow = memory[0].per_s
    estimate = detection(memory, {"stop": Reading(0.5, 0)}, RED, 5, INTERVAL_S)
    for n in range(2, 12):
        estimate = detection(estimate.memory, {"stop": Reading(1.0, 0)}, RED, 5 * n, INTERVAL_S)
    assert 1 <= estimate.standing[0] <= 1 + 11 * INTERVAL_S * flow


def test_without_a_stop_line_detector_the_saturation_flow_departs_in_green():
    detection = crossing(ADVANCE)
    memory = after(detection, vehicles=8)
    two_s_of_green = detection(memory, {"advance": EMPTY}, GREEN, 2, INTERVAL_S)
    assert two_s_of_green.memory[0].vehicles == pytest.approx(8 - 2 * SATURATION_PER_S)
    in_red = detection(memory, {"advance": EMPTY}, RED, 20, INTERVAL_S)
    assert in_red.memory[0].vehicles == 8
    change = detection(memory, {"advance": EMPTY}, GREEN, -3, INTERVAL_S)
    assert change.memory[0].vehicles == 8, "the phase is not green yet"


def test_a_lane_without_readings_has_a_queue_that_grows_in_red_and_is_served_in_green():
    detection = crossing(STOP_LINE, ADVANCE)
    memory, queues = detection.start, []
    for n in range(1, 25):
        memory, standing, _ = detection(memory, {}, RED, n * INTERVAL_S, INTERVAL_S)
        queues.append(standing[0])
    assert queues == pytest.approx([TYPICAL_PER_S * INTERVAL_S * n for n in range(1, 25)])
    for n in range(1, 12):
        memory, standing, _ = detection(memory, {}, GREEN, n * INTERVAL_S, INTERVAL_S)
    assert standing[0] == 0


def test_presence_alone_shows_whether_there_is_a_queue():
    detection = crossing(STOP_LINE)
    memory = after(detection, vehicles=6, green_s=20)
    served = detection(memory, {"stop": Reading(0.1)}, GREEN, 25, INTERVAL_S)
    assert served.standing[0] == 0
    queue = detection(memory, {"stop": Reading(0.7)}, GREEN, 25, INTERVAL_S)
    expected = 6 + (TYPICAL_PER_S - SATURATION_PER_S) * INTERVAL_S
    assert queue.standing[0] == pytest.approx(expected)


def test_lanes_share_a_detector_by_their_flows_and_departures_by_their_queues():
    both = {"lanes": ["a_0", "a_1"]}
    detection = crossing(STOP_LINE | both, ADVANCE | both, lanes=2)
    first, second, other = after(detection, green_s=20)
    memory = (
        first._replace(vehicles=5, per_s=0.3),
        second._replace(vehicles=2, per_s=0.1),
        other,
    )
    readings = {"advance": Reading(0.2, 4), "stop": Reading(0.6, 4)}
    first, second, _ = detection(memory, readings, GREEN, 25, INTERVAL_S).memory
    assert first.vehicles == pytest.approx(5 + 4 * 3 / 4 - 4 * 6.5 / 9)
    assert second.vehicles == pytest.approx(2 + 4 * 1 / 4 - 4 * 2.5 / 9)


def test_of_lanes_in_red_and_in_green_those_in_green_have_the_departures():
    both = {"lanes": ["a_0", "b_0"]}
    detection = crossing(STOP_LINE | both)
    memory = after(detection, vehicles=4, per_s=0, green_s=20)
    estimate = detection(memory, {"stop": Reading(1.0, 2)}, GREEN, 25, INTERVAL_S)
    assert [each.vehicles for each in estimate.memory] == [2, 4]


def test_of_lanes_that_share_an_advance_detector_one_has_the_queue_on_it():
    both = {"lanes": ["a_0", "a_1"]}
    detection = crossing(ADVANCE | both, lanes=2)
    first, second, other = after(detection, per_s=0)
    memory = (first._replace(vehicles=7), second._replace(vehicles=1), other)
    estimate = detection(memory, {"advance": Reading(1.0, 0)}, RED, 20, INTERVAL_S)
    assert [each.vehicles for each in estimate.memory[:2]] == [8, 1]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"readings": {"other": EMPTY}}, "does not declare detector 'other'"),
        ({"readings": {"stop": Reading(1.2, 0)}}, "occupancy 1.2, not 0 to 1"),
        ({"readings": {"stop": Reading(float("nan"), 0)}}, "occupancy nan, not 0 to 1"),
        ({"readings": {"stop": Reading(0.5, -1)}}, "count -1, not 0 to 1000"),
        ({"phase": 2}, "phase 2 is not one of the 2 phases"),
        ({"interval_s": 0}, "the interval is 0 s"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_values_that_cannot_be_are_refused(changed, sentence):
    detection = crossing(STOP_LINE)
    call = {"readings": {"stop": EMPTY}, "phase": 0, "green_s": 5, "interval_s": 5} | changed
    with pytest.raises(ValueError, match=sentence):
        detection(detection.start, **call)


def test_a_network_without_links_is_refused():
    entry = {"id": "a", "agent_index": 0, "phases": [{}], "lanes": [{"id": "a_0", "capacity": 9}]}
    with pytest.raises(ValueError, match="has no states of its phases, or no links"):
        JunctionDetection(JunctionEntry.model_validate(entry))
