"""Controllers: what greedy and max pressure choose, and what is decided in place of a policy."""

import numpy as np
import pytest

from lab.sim.controllers import (
    GREEDY,
    MAX_PRESSURE,
    AlwaysRed,
    Controller,
    LongestQueue,
    PlanByClock,
    QueueRule,
)
from lab.sim.faults import WithLosses, WithOutage
from lab.sim.observation import Observation
from models.networks.form import LaneBehind
from models.networks.shipped import FOLDER, SHIPPED
from models.signals.clock_plan import read_plan
from tests.cities import crossing

# The only lane from the west goes straight on and left; phase 1 serves its left turns alone.
NETWORK = crossing(
    ("GGr", "rGr", "rrG"),
    {"west": 10, "north": 10},
    (("west", "east"), ("west", "far", "l"), ("north", "south")),
)


def choice(rule: QueueRule, present: int = 0, **queues: int) -> int:
    controller = LongestQueue(NETWORK, rule)
    return controller.decide({"a": present}, lambda lane: queues.get(lane, 0))["a"]


def test_a_phase_that_serves_a_part_of_a_lane_is_no_substitute_for_one_that_serves_all():
    assert choice(GREEDY, present=1, west=3) == 0
    assert choice(MAX_PRESSURE, present=1, west=3) == 0


def test_the_present_phase_stays_where_none_is_better():
    assert choice(GREEDY, present=2) == 2
    assert choice(GREEDY, present=2, west=2, north=2) == 2


def test_max_pressure_minds_what_stands_downstream():
    assert choice(MAX_PRESSURE, west=5, north=4) == 0
    assert choice(MAX_PRESSURE, west=5, north=4, east=3, far=3) == 2
    assert choice(GREEDY, west=5, north=4, east=3, far=3) == 0


def test_another_phase_must_lead_by_the_hysteresis():
    rule = GREEDY._replace(hysteresis=2.0)
    assert choice(rule, west=3, north=5) == 0
    assert choice(rule, west=3, north=6) == 2


def test_in_cyclic_order_the_longest_queue_that_may_follow_is_served():
    states = ["Grrr", "rGrr", "rrGr", "rrrG"]
    network = crossing(states, dict.fromkeys("abcd", 10), [(lane, "far") for lane in "abcd"])
    controller = LongestQueue(network, GREEDY._replace(cyclic=True))

    def follows(present: int, *queues: int) -> int:
        counted = dict(zip("abcd", queues, strict=True))
        return controller.decide({"a": present}, lambda lane: counted.get(lane, 0))["a"]

    assert follows(0, 1, 2, 4, 3) == 2, "a phase may be skipped"
    assert follows(2, 3, 9, 5, 4) == 3, "an earlier phase waits for the next cycle"
    assert follows(2, 4, 9, 5, 3) == 0
    assert follows(3, 0, 9, 0, 5) == 0
    assert follows(2, 4, 5, 6, 3) == 2, "no other queue is longer"


def test_without_shares_a_phase_counts_all_vehicles_of_a_lane_that_it_serves_in_part():
    rule = GREEDY._replace(shared=False)
    assert choice(rule, present=1, west=3) == 1
    assert choice(rule, present=2, west=3) == 0


@pytest.mark.parametrize("rule", [GREEDY, MAX_PRESSURE])
def test_left_turns_get_a_green_of_their_own_though_another_phase_serves_all_ways(rule):
    lanes = dict.fromkeys(("west", "west_left", "east"), 10)
    links = ("west", "far"), ("west_left", "north", "l"), ("east", "near")
    controller = LongestQueue(crossing(("GgG", "GGr"), lanes, links), rule)
    for left, phase in ((8, 1), (2, 0)):
        queues = {"west": 5, "west_left": left, "east": 3}
        assert controller.decide({"a": 0}, lambda lane: queues.get(lane, 0))["a"] == phase  # noqa: B023


def test_vehicles_behind_a_lane_too_short_for_any_count_with_their_share():
    junction = NETWORK.junctions[0]
    short = junction.lanes[0].model_copy(update={"behind": (LaneBehind(lane="avenue", share=0.5),)})
    lanes = (short, *junction.lanes[1:])
    network = NETWORK.model_copy(
        update={"junctions": (junction.model_copy(update={"lanes": lanes}),)}
    )
    for avenue, phase in ((8, 0), (4, 2)):
        queues = {"avenue": avenue, "north": 3}
        chosen = LongestQueue(network).decide({"a": 2}, lambda lane: queues.get(lane, 0))  # noqa: B023
        assert chosen["a"] == phase


def observe(seed: int = 0) -> dict[str, Observation]:
    rng = np.random.default_rng(seed)
    return {
        each.id: rng.random(each.obs_size).astype(np.float32) for each in SHIPPED.junctions.values()
    }


class Counting:
    """Answers 1, and counts its steps."""

    def __init__(self) -> None:
        self.steps = 0

    def act(self, observations: object) -> dict[str, int]:
        self.steps += 1
        return dict.fromkeys(SHIPPED.ids, 1)


@pytest.mark.parametrize(("share", "at_least", "at_most"), [(0.1, 0.07, 0.13), (1.0, 1.0, 1.0)])
def test_answers_are_lost_as_often_as_the_share_says(share, at_least, at_most):
    controller = WithLosses(Counting(), AlwaysRed(), share, seed=1)
    actions = [action for _ in range(400) for action in controller.act(observe()).values()]
    assert at_least <= actions.count(0) / len(actions) <= at_most


def test_a_dead_policy_makes_no_step_and_begins_anew():
    made: list[Counting] = []

    def make() -> Controller:
        made.append(Counting())
        return made[-1]

    controller = WithOutage(make, AlwaysRed(), begin_s=10, end_s=25, decision_s=5)
    actions = [controller.act(observe())["300839359"] for _ in range(8)]
    assert actions == [1, 1, 0, 0, 0, 1, 1, 1]
    assert [each.steps for each in made] == [2, 3]


def test_the_plan_goes_on_by_the_clock_whether_it_decides_or_not():
    plan, begin_s = read_plan(FOLDER / "greenwave.plan.json", SHIPPED), 27_000
    fallback = PlanByClock(plan, begin_s, 5)
    controller = WithOutage(Counting, fallback, begin_s=50, end_s=100, decision_s=5)
    actions = [controller.act(observe()) for _ in range(20)]
    for number in range(10, 20):
        second = begin_s + 5 * number
        assert actions[number] == {each: plan.at(each, second).phase for each in SHIPPED.ids}
