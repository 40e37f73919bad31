"""Diagnose the working detectors of healthy hours: count false alarms, or fit the limits.

``python -m lab.evaluate.detectors`` drives the shipped network with its policy, and prints the
alarms and the detector hours. ``--limits FILE`` then writes the network file with a limit of no
activity for each lane: what speaks most for it in AIMED_HOURS, extrapolated from these hours.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lab.evaluate.cases import POLICY, STUDIES
from lab.sim.controllers import Controller, policy_control, run
from lab.sim.environment import Environment, Observations
from lab.sim.faults import Diagnosed
from lab.sim.scenario import Scenario
from models.atomic_write import atomic_write
from models.networks.file import network_as_json, read_network_file
from models.networks.form import DetectorLimits, Lane, NetworkFile
from models.networks.network import Network, network_of
from models.networks.shipped import NETWORK_FILE
from models.policy.form import SHIPPED_POLICY

FIRST_SEED = 201  # neither training nor test seeds
STARTS = 60  # times an hour that a lane's evidence begins anew: in each red
AIMED_HOURS = 10_000  # of a lane, in which a limit may be reached once
FEWEST = 20  # readings above zero of a lane in all hours, for a limit


@dataclass
class Hours:
    """Healthy hours of one network.

    Attributes:
        hours: of all detectors together.
        alarms: all of them false, by fault.
        where: a sentence on each run with alarms; in a jam, queues stand through green.
        quiet: by junction and lane, the most that spoke for no activity.
        seen: by junction and lane, readings above zero.
    """

    hours: float = 0.0
    alarms: Counter[str] = field(default_factory=Counter)
    where: list[str] = field(default_factory=list)
    quiet: dict[tuple[str, int], float] = field(default_factory=dict)
    seen: Counter[tuple[str, int]] = field(default_factory=Counter)

    def drive(self, scenario: Scenario, seed: int, network: Network) -> None:
        """Simulate a run of the shipped policy, and diagnose by the limits of a network."""
        junctions = scenario.network.junctions
        control = policy_control(scenario, SHIPPED_POLICY)
        made: list[Diagnosed] = []

        def diagnosed(environment: Environment) -> Controller:
            made.append(Diagnosed(control(environment), network))
            return made[0]

        def count(observations: Observations, _: object) -> None:
            for each in junctions:
                readings = observations[each.id][len(each.phases) + 1 :]
                self.seen.update((each.id, int(lane)) for lane in np.flatnonzero(readings))

        metrics = run(scenario, seed, diagnosed, count)
        n_detectors = sum(len(each.lanes) for each in junctions)
        self.hours += n_detectors * (scenario.end_s - scenario.begin_s) / 3600
        self.alarms += made[0].alarms
        if found := made[0].alarms.total():
            self.where.append(f"{found} with seed {seed}, time loss {metrics.delay_s:.0f} s")
        for lane, most in made[0].quiet.items():
            self.quiet[lane] = max(self.quiet.get(lane, 0.0), most)


def with_limits(network: NetworkFile, measured: Hours) -> NetworkFile:
    """Return the network with a limit of no activity for each lane that has traffic."""
    hours = measured.hours / sum(len(each.lanes) for each in network.junctions)
    margin = _margin(hours) if hours else 0.0

    def limited(junction: str, number: int, lane: Lane) -> Lane:
        key = junction, number
        limit = 0
        if measured.seen[key] >= FEWEST:
            limit = math.ceil(margin * measured.quiet.get(key, 0.0)) or 1
        own = {} if lane.detector is None else lane.detector.model_dump(exclude_unset=True)
        detector = DetectorLimits(**{**own, "no_activity": limit})
        return Lane(**{**dict(lane), "detector": detector})

    junctions = [
        each.model_copy(
            update={"lanes": tuple(limited(each.id, n, lane) for n, lane in enumerate(each.lanes))}
        )
        for each in network.junctions
    ]
    return network.model_copy(update={"junctions": tuple(junctions)})


def _margin(hours: float) -> float:
    """Return by how much the longest gap in AIMED_HOURS exceeds that in some hours.

    Gaps between arrivals are about exponential, so the longest of n grows with the logarithm of n.
    """
    return math.log(STARTS * AIMED_HOURS) / math.log(STARTS * max(1.0, hours))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, default=4, help="how many")
    parser.add_argument("--limits", type=Path, metavar="FILE", help="network file to write")
    options = parser.parse_args()
    network = read_network_file(NETWORK_FILE)
    driven = with_limits(network, Hours()) if options.limits else network
    measured = Hours()
    for seed in range(FIRST_SEED, FIRST_SEED + options.seeds):
        for traffic in STUDIES[POLICY]["compared"].traffic:
            measured.drive(traffic.scenario(seed), seed, network_of(driven))
    found = ", ".join(f"{n} {fault}" for fault, n in measured.alarms.items()) or "none"
    lines = [f"{network.name}: {measured.hours:.0f} detector hours, alarms: {found}"]
    sys.stdout.write("\n  ".join([*lines, *measured.where]) + "\n")
    if options.limits:
        with atomic_write(options.limits) as file:
            file.write(network_as_json(with_limits(network, measured)).encode())


if __name__ == "__main__":
    main()
