"""The gateway's answers while the inference service is unavailable."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo

from deployments.gateway.options import GatewayOptions
from models.networks.network import Network
from models.networks.shipped import SHIPPED, is_shipped
from models.signals.clock_plan import (
    SAFE_PLAN,
    SHIPPED_PLAN,
    ClockPlan,
    InvalidPlanError,
    Planned,
    read_plan,
)
from models.signals.safety import read_layers


class Fallback:
    """Answers while the inference service does not: RED, or a fixed-time plan by the clock.

    It has no state: a clock that is set back or forward only moves the plan within its cycle.

    Args:
        plan: None answers RED.
        time_zone: of the plan's times of day.
        clock: seconds since the Unix epoch.
    """

    def __init__(
        self,
        plan: ClockPlan | None = None,
        time_zone: tzinfo = UTC,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._plan = plan
        self._zone = time_zone
        self._clock = clock

    @property
    def has_plan(self) -> bool:
        return self._plan is not None

    def act(self, junction_id: str, simulation_time_s: float | None) -> Planned | None:
        """Return the answer for a junction; None for RED.

        Args:
            simulation_time_s: seconds of the client's day; None for the time of day here.
        """
        if self._plan is None:
            return None
        second = self._second_of_day() if simulation_time_s is None else simulation_time_s
        return self._plan.at(junction_id, second)

    def _second_of_day(self) -> float:
        now = datetime.fromtimestamp(self._clock(), self._zone)
        return now.hour * 3600 + now.minute * 60 + now.second + now.microsecond / 1e6


def configured_plan(options: GatewayOptions, network: Network = SHIPPED) -> ClockPlan | None:
    """Return the plan that the options ask for; None for RED.

    Raises:
        InvalidPlanError: the network has no plan, the file is not a plan, or its phases are shorter
            than the safety layer allows.
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
        for name, layer in read_layers(options.limits, network).items():
            if plan.shortest_phase_s(name) < layer.shortest_phase_s:
                raise InvalidPlanError(
                    f"behind the safety layer, phases of junction {name} must last for at least"
                    f" {layer.shortest_phase_s:g} s"
                )
    return plan
