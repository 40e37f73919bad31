"""Outages to test a fallback in: what is lost of the policy, and what answers instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from models.signals.clock_plan import read_plan
from models.simulation.controllers import Controller
from models.simulation.environment import Scenario
from models.simulation.outages import AlwaysRed, ByClock, WithLosses, WithOutage
from models.training.traffic_levels import TEST_LEVELS

OUTAGE_LEVEL = "rush hour, 7:30"
RED, PLAN = "RED", "plan"
TEN_MINUTES_S, FIVE_MINUTES_S = 600, 300

OUTAGES: Mapping[str, Callable[[Controller, Controller, int], Controller]] = {
    "1 % of answers lost": lambda policy, fallback, seed: WithLosses(policy, fallback, 0.01, seed),
    "10 % of answers lost": lambda policy, fallback, seed: WithLosses(policy, fallback, 0.1, seed),
    "dead for five minutes": lambda policy, fallback, seed: WithOutage(
        policy, fallback, TEN_MINUTES_S, TEN_MINUTES_S + FIVE_MINUTES_S
    ),
    "dead all the time": lambda policy, fallback, seed: fallback,
}
FALLBACKS: Mapping[str, Callable[[Scenario], Controller]] = {
    RED: lambda scenario: AlwaysRed(),
    PLAN: lambda scenario: ByClock(read_plan(), scenario.begin_s),
}


def outage_runs() -> list[str]:
    """Return a name for each outage with each fallback."""
    return [f"{outage}, {fallback}" for outage in OUTAGES for fallback in FALLBACKS]


def with_outage(policy: Controller, run: str, seed: int) -> Controller:
    """Return the policy as the street sees it in a run of :func:`outage_runs`."""
    outage, _, fallback = run.rpartition(", ")
    instead = FALLBACKS[fallback](TEST_LEVELS[OUTAGE_LEVEL](seed))
    return OUTAGES[outage](policy, instead, seed)
