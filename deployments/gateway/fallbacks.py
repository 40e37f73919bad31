"""What is answered while the inference service is out of reach."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple, Protocol
from zoneinfo import ZoneInfo

from deployments.feed.messages import NOBODY, Decision, Demand
from deployments.gateway.action_request import ActionQuery
from deployments.gateway.options import GatewayOptions
from deployments.gateway.safety import limits_of
from deployments.http.messages import DEFAULT_RUN
from models.junctions import SHIPPED, is_shipped
from models.networks.network import Network
from models.signals.clock_plan import (
    SAFE_PLAN,
    SHIPPED_PLAN,
    ClockPlan,
    InvalidPlanError,
    read_plan,
)
from models.signals.safety import read_layers

MAX_FALLBACKS = 50


class Instead(NamedTuple):
    """An answer without the policy.

    Attributes:
        plan: the fixed-time plan that it is from, and its period; None for RED.
    """

    action: int
    plan: str | None


class Fallback(Protocol):
    INSTEAD: str  # for the log

    def act(self, junction_id: str, simulation_time_s: float | None) -> Instead:
        """Return what a junction is answered.

        Args:
            simulation_time_s: seconds of the client's day; None goes by the clock on the wall.
        """


class Red:
    """The documented fallback."""

    INSTEAD = "RED"

    def act(self, junction_id: str, simulation_time_s: float | None) -> Instead:
        return Instead(0, None)


class ByPlan:
    """Answers from a fixed-time plan by the clock.

    It keeps nothing, so a clock that is set back or forward only has the plan go on elsewhere in
    its cycle.

    Args:
        zone: whose time of day the plan's periods are.
        clock: seconds since the Unix epoch.
    """

    INSTEAD = "from the fixed-time plan"

    def __init__(
        self, plan: ClockPlan, zone: ZoneInfo, clock: Callable[[], float] = time.time
    ) -> None:
        self._plan = plan
        self._zone = zone
        self._clock = clock

    def act(self, junction_id: str, simulation_time_s: float | None) -> Instead:
        second = self._second_of_day() if simulation_time_s is None else simulation_time_s
        return Instead(*self._plan.at(junction_id, second))

    def _second_of_day(self) -> float:
        now = datetime.fromtimestamp(self._clock(), self._zone)
        return now.hour * 3600 + now.minute * 60 + now.second + now.microsecond / 1e6


def configured_plan(options: GatewayOptions, network: Network = SHIPPED) -> ClockPlan | None:
    """Return the plan that the options ask for; None for RED.

    Raises:
        InvalidPlanError: there is none of the network, it is no plan, or the safety layer would
            have its phases last longer.
    """
    if options.fallback == "red":
        return None
    if options.plan_file is None and not is_shipped(network):
        raise InvalidPlanError(
            f"fallback: plan needs a plan_file for the network {network.name}; the shipped plans"
            " are of the shipped network"
        )
    shipped = SAFE_PLAN if options.safety else SHIPPED_PLAN
    plan = read_plan(options.plan_file or shipped, network)
    if options.safety:
        for name, layer in read_layers(limits_of(options), network).items():
            if plan.shortest_phase_s(name) < layer.shortest_phase_s:
                raise InvalidPlanError(
                    f"behind the safety layer, phases of junction {name} must last for at least"
                    f" {layer.shortest_phase_s:g} s"
                )
    return plan


def make_fallback(plan: ClockPlan | None, time_zone: str) -> Fallback:
    """Return the fallback of a gateway: RED where it has no plan."""
    return Red() if plan is None else ByPlan(plan, ZoneInfo(time_zone))


class WatchedFallbacks:
    """Keeps the latest answers without the policy.

    Attributes:
        watched: whether anybody watches; while nobody does, nothing is to be noted.
    """

    def __init__(self) -> None:
        self.watched = False
        self._runs: frozenset[str] = frozenset()
        self._fallbacks: deque[Decision] = deque(maxlen=MAX_FALLBACKS)

    def on_demand_changed(self, demand: Demand) -> None:
        self.watched, self._runs = demand
        if demand == NOBODY:
            self._fallbacks.clear()

    def note(self, run: str | None, query: ActionQuery, action: int, cause: str) -> None:
        """Note an answer that came without the policy."""
        decision = Decision(
            time.time(), run or DEFAULT_RUN, query.junction_id, query.obs, action, fallback=cause
        )
        self._fallbacks.append(decision)

    def take(self) -> tuple[list[Decision], dict[str, int]]:
        """Return the fallbacks of the runs that are asked for, and how many each run had."""
        noted = list(self._fallbacks)
        self._fallbacks.clear()
        wanted = [decision for decision in noted if decision.run in self._runs]
        return wanted, dict(Counter(decision.run for decision in noted))
