"""The teacher's plans: what waits is served, and a change must be worth its yellow."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

from models.training.rolling_horizon import HORIZON, plan_cost

SERVED = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])  # two lanes, then one


def arrivals(*first: float) -> np.ndarray:
    table = np.zeros((HORIZON, 3))
    table[0] = first
    return table


def test_change_is_cheaper_when_only_the_other_phase_has_a_queue() -> None:
    queue = arrivals(0, 0, 5)
    assert plan_cost(queue, SERVED, 0, 1) < plan_cost(queue, SERVED, 0, 0)


def test_staying_is_cheaper_when_both_queues_are_equal() -> None:
    queue = arrivals(5, 5, 5)
    assert plan_cost(queue, SERVED, 0, 0) < plan_cost(queue, SERVED, 0, 1)


def test_platoon_about_to_arrive_holds_the_green() -> None:
    queue = arrivals(0, 0, 1)
    queue[1:4, :2] = 2.5
    assert plan_cost(queue, SERVED, 0, 0) < plan_cost(queue, SERVED, 0, 1)


def test_empty_roads_cost_nothing() -> None:
    assert plan_cost(arrivals(0, 0, 0), SERVED, 0, 0) == 0
