"""What is measured in a run of RESCO's scenarios, in the definitions of RESCO's code.

Source: ``resco_benchmark`` at https://github.com/Pi-Star-Lab/RESCO, revision fc65e91.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import NamedTuple

import libsumo

from lab.evaluate.comparison import CityRun
from lab.sim.environment import Observations, vehicles_within
from lab.sim.metrics import Metrics
from models.networks.form import NetworkFile

SUMO = version("eclipse-sumo")
SEEN_M = 200.0  # before the stop line


class Result(NamedTuple):
    """How a run went; times are means in seconds per vehicle of the hour.

    Attributes:
        policy: the digest of its weights, where a policy's file decided, or the lead of the rule.
        resco_trip_s, resco_waiting_s, resco_delay_s: see :class:`.metrics.Departed`; None where a
            run did not record them.
        resco_queue: see :class:`RescoQueue`.
    """

    map: str
    controller: str
    seed: int
    sumo: str
    delay_s: float
    waiting_s: float
    trip_s: float
    demanded: int
    arrived: int
    policy: str = ""
    resco_trip_s: float | None = None
    resco_waiting_s: float | None = None
    resco_queue: float | None = None
    resco_delay_s: float | None = None

    @classmethod
    def of(
        cls,
        name: str,
        controller: str,
        seed: int,
        metrics: Metrics,
        queue: RescoQueue | None = None,
        policy: str = "",
    ) -> Result:
        made = CityRun.of(controller, seed, metrics)
        return cls(
            name,
            controller,
            seed,
            SUMO,
            made.delay_s,
            made.waiting_s,
            made.trip_s,
            made.demanded,
            made.arrived,
            policy,
            round(metrics.departed.travel_s, 3),
            round(metrics.departed.waiting_s, 3),
            None if queue is None else round(queue.mean, 3),
            round(metrics.departed.delay_s, 3),
        )


class RescoQueue:
    """Counts queues at every decision of a run; see :func:`lab.sim.controllers.run`.

    A vehicle counts from the first decision at which it stands until it has left the signal's
    incoming lanes (``traffic_signal.py``, ``utils/readCSV.py``).
    """

    def __init__(self, network: NetworkFile) -> None:
        self._lanes = [[lane.id for lane in each.lanes] for each in network.junctions]
        self._queued: list[set[str]] = [set() for _ in self._lanes]
        self._total = self._n_looks = 0

    def __call__(self, observations: Observations, actions: Mapping[str, int]) -> None:
        for lanes, queued in zip(self._lanes, self._queued, strict=True):
            seen = {vehicle for lane in lanes for vehicle in vehicles_within(lane, SEEN_M)}
            queued &= seen
            queued |= {each for each in seen if libsumo.vehicle.getWaitingTime(each) > 0}
            self._total += len(queued)
        self._n_looks += 1

    @property
    def mean(self) -> float:
        """The mean over decisions and signals, of which RESCO's code counts one too many."""
        return self._total / max(1, self._n_looks) / (len(self._lanes) + 1)
