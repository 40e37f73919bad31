"""Fixed-time control after Webster: cycle and splits from the demand that is expected in the hour.

Source: F. V. Webster, "Traffic Signal Settings", Road Research Technical Paper 39, 1958.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from models.networks.shipped import JUNCTIONS
from models.signals.clock_plan import phase_at
from models.simulation.demand import HOUR_S, DayProfile, expected_rate, make_flows
from models.simulation.environment import DECISION_S, Scenario
from models.simulation.observation import Observation
from models.simulation.road_network import JunctionLayout, RoadNetwork

SATURATION_FLOW = 1800.0  # vehicles per hour of green and lane
LOST_S_PER_PHASE = 4.0  # yellow and start-up, less what still drives at yellow
PERMITTED_TURN_FACTOR = 3.0  # through vehicles that one turn against oncoming traffic stands for
MIN_CYCLE_S = 30.0
MAX_CYCLE_S = 120.0
MAX_FLOW_RATIO = 0.9  # near 1 Webster's cycle grows without bound

MovementVolumes = Mapping[tuple[str, str], float]


def movement_volumes(
    network: RoadNetwork, second_of_day: float, scale: float, profile: DayProfile
) -> MovementVolumes:
    """Return the expected vehicles per hour from each edge to the next at a time of day."""
    volumes: dict[tuple[str, str], float] = defaultdict(float)
    for flow in make_flows(network):
        for movement in pairwise(network.route(flow.start, flow.end)):
            volumes[movement] += scale * expected_rate(flow, second_of_day, profile)
    return volumes


def flow_ratios(junction: JunctionLayout, volumes: MovementVolumes) -> list[float]:
    """Return, per phase, the largest share of saturation flow that traffic asks for.

    It is the share of a movement or of a whole approach.

    A movement that is green in several phases counts in the phase that serves most of its approach.
    """
    ratios = []
    for phase in range(len(junction.phases)):
        loads: dict[str, float] = defaultdict(float)
        lanes: dict[str, set[str]] = defaultdict(set)
        critical = 0.0
        for approach in junction.approaches:
            if approach.greens.lower().find("g") != phase:
                continue
            load = volumes.get((approach.from_edge, approach.to_edge), 0.0)
            if approach.greens[phase] == "g":
                load *= PERMITTED_TURN_FACTOR
            loads[approach.from_edge] += load
            lanes[approach.from_edge].update(approach.lanes)
            critical = max(critical, load / len(approach.lanes))
        critical = max(critical, *(load / len(lanes[edge]) for edge, load in loads.items()))
        ratios.append(critical / SATURATION_FLOW)
    return ratios


def webster_cycle_s(ratios: Sequence[float], lost_s: float = LOST_S_PER_PHASE) -> float:
    """Return the cycle of least delay, (1.5 L + 5) / (1 - Y), where each phase loses some time."""
    lost = lost_s * len(ratios)
    cycle = (1.5 * lost + 5) / (1 - min(MAX_FLOW_RATIO, sum(ratios)))
    return float(np.clip(cycle, MIN_CYCLE_S, MAX_CYCLE_S))


def split_cycle(
    ratios: Sequence[float],
    cycle_s: float,
    lost_s: float = LOST_S_PER_PHASE,
    fewest_decisions: int = 2,
) -> tuple[int, ...]:
    """Return the seconds of each phase, yellow included: green in proportion to the flow ratios.

    Rounded to whole decisions, of which every phase gets some.
    """
    green = cycle_s - lost_s * len(ratios)
    wished = lost_s + green * np.array(ratios) / sum(ratios)
    decisions = np.maximum(fewest_decisions, np.round(wished / DECISION_S)).astype(int)
    return tuple((DECISION_S * decisions).tolist())


class FixedTime:
    """Runs one plan per junction, made anew for each hour of the scenario.

    Every junction has its own best cycle. Against a common cycle with offsets along the arterial
    it loses 8 % less (morning) to 5 % more time (evening): the center needs a cycle two to
    three times as long as its neighbours do.
    """

    def __init__(self, network: RoadNetwork, scenario: Scenario) -> None:
        self._hourly_plans = [
            self._make_plans(network, scenario, begin_s)
            for begin_s in range(scenario.begin_s, scenario.end_s, HOUR_S)
        ]
        self._run_s = 0

    def reset(self) -> None:
        self._run_s = 0

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        plans = self._hourly_plans[self._run_s // HOUR_S]
        actions = {
            junction_id: phase_at(self._run_s, plans[junction_id]) for junction_id in observations
        }
        self._run_s += DECISION_S
        return actions

    @staticmethod
    def _make_plans(
        network: RoadNetwork, scenario: Scenario, begin_s: int
    ) -> dict[str, tuple[int, ...]]:
        middle = (begin_s + min(begin_s + HOUR_S, scenario.end_s)) / 2
        volumes = movement_volumes(network, middle, scenario.demand_scale, scenario.profile)
        plans = {}
        for junction_id in JUNCTIONS:
            ratios = flow_ratios(network.junctions[junction_id], volumes)
            plans[junction_id] = split_cycle(ratios, webster_cycle_s(ratios))
        return plans
