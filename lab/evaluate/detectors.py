"""Diagnose the working detectors of healthy hours: count false alarms, or fit the limits.

``python -m lab.evaluate.detectors`` drives the shipped network with its policy, or RESCO's
maps with the greedy controller, or by ``--policy`` where greedy jams. It prints the alarms and
the detector hours of each network.
``--limits FILE`` then writes the network file with a limit of no activity for each lane: what
speaks most for it in AIMED_HOURS, extrapolated from the measured hours.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from lab.evaluate.cases import LEVELS
from lab.evaluate.resco import scenario_of
from lab.evaluate.resco_published import MAPS
from lab.sim.controllers import (
    CONTROLS,
    Control,
    Controller,
    PolicyController,
    policy_control,
    run,
)
from lab.sim.diagnosed import Diagnosed
from lab.sim.environment import Environment
from lab.sim.scenario import InvalidScenarioError, Scenario
from models.atomic_write import atomic_write
from models.networks.file import InvalidNetworkError, network_as_json, read_network_file
from models.networks.form import DetectorLimits, Lane, NetworkFile
from models.networks.network import network_of
from models.networks.shipped import NETWORK_FILE, SHIPPED
from models.policy.form import SHIPPED_POLICY, InvalidPolicyFileError
from models.policy.step import PolicyStep

FIRST_SEED = 201  # neither training nor test seeds
STARTS = 60  # times an hour that a lane's evidence begins anew: in each red
AIMED_HOURS = 10_000  # of a lane, in which a limit may be reached once
FEWEST = 20  # readings above zero of a lane in all hours, for a limit


class Hours(NamedTuple):
    """Healthy hours of one network.

    Attributes:
        hours: of all detectors together.
        alarms: all of them false, by fault.
        where: a sentence on each run with alarms; in a jam, queues stand through green.
        quiet: by junction and lane, the most that spoke for no activity.
        seen: by junction and lane, readings above zero.
    """

    hours: float
    alarms: Counter[str]
    where: list[str]
    quiet: Mapping[tuple[str, int], float]
    seen: Counter[tuple[str, int]]


def diagnose(network: NetworkFile, runs: Iterator[tuple[Scenario, int, Control]]) -> Hours:
    """Simulate runs and diagnose their detectors by the limits of the network file."""
    hours, alarms, seen = 0.0, Counter[str](), Counter[tuple[str, int]]()
    where: list[str] = []
    quiet: dict[tuple[str, int], float] = {}
    n_detectors = sum(len(each.lanes) for each in network.junctions)
    n_phases = {each.id: len(each.phases) for each in network.junctions}
    for scenario, seed, control in runs:
        if not callable(control):
            raise TypeError("programs of SUMO show no phases to diagnose by")
        made: list[Diagnosed] = []

        def diagnosed(
            environment: Environment,
            make: Callable[[Environment], Controller] = control,
            made: list[Diagnosed] = made,
        ) -> Controller:
            made.append(Diagnosed(make(environment), network_of(network)))
            return made[0]

        def count(observations: Mapping[str, object], actions: object) -> None:
            for name, observation in observations.items():
                for lane, reading in enumerate(observation[n_phases[name] + 1 :]):  # type: ignore[index]
                    seen[name, lane] += reading > 0

        metrics = run(scenario, seed, diagnosed, count)
        hours += n_detectors * (scenario.end_s - scenario.begin_s) / 3600
        alarms += made[0].alarms
        if made[0].alarms:
            found = made[0].alarms.total()
            where.append(f"{found} with seed {seed}, time loss {metrics.time_loss_s:.0f} s")
        for lane, most in made[0].quiet.items():
            quiet[lane] = max(quiet.get(lane, 0.0), most)
    return Hours(hours, alarms, where, quiet, seen)


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


def _without_limits(network: NetworkFile) -> NetworkFile:
    unlimited = Hours(0, Counter(), [], {}, Counter())
    return with_limits(network, unlimited)


def _shipped_runs(seeds: range) -> Iterator[tuple[Scenario, int, Control]]:
    step = PolicyStep.load(SHIPPED_POLICY, SHIPPED)
    for seed in seeds:
        for make in LEVELS.values():
            yield make(seed), seed, lambda environment: PolicyController(step, SHIPPED)


def _map_runs(
    scenario: Scenario, policy: Path | None, seeds: range
) -> Iterator[tuple[Scenario, int, Control]]:
    for seed in seeds:
        yield (
            scenario,
            seed,
            policy_control(scenario, policy) if policy else CONTROLS["greedy"](scenario),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--resco", type=Path, help="folder of RESCO's maps, to drive these")
    parser.add_argument("--maps", nargs="+", choices=MAPS, default=list(MAPS))
    parser.add_argument("--policy", type=Path, help="that drives one map, such as a start.th")
    parser.add_argument("--network", type=Path, help="network file with the limits of one map")
    parser.add_argument("--seeds", type=int, default=4, help="how many")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--limits", type=Path, metavar="FILE", help="network file to write")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    of_one = options.limits or options.network or options.policy
    if of_one and options.resco and len(options.maps) > 1:
        parser.error("--limits, --network and --policy are of one map; name it with --maps")
    try:
        networks = {"greenwave": (read_network_file(NETWORK_FILE), partial(_shipped_runs, seeds))}
        if options.resco:
            scenarios = {name: scenario_of(options.resco, name) for name in options.maps}
            networks = {
                name: (each.network, partial(_map_runs, each, options.policy, seeds))
                for name, each in scenarios.items()
            }
        for name, (network, runs) in networks.items():
            if options.network:
                network = read_network_file(options.network)
            measured = diagnose(_without_limits(network) if options.limits else network, runs())
            found = ", ".join(f"{n} {fault}" for fault, n in measured.alarms.items()) or "none"
            sys.stdout.write(f"{name}: {measured.hours:.0f} detector hours, alarms: {found}\n")
            for sentence in measured.where:
                sys.stdout.write(f"  {sentence}\n")
            if options.limits:
                with atomic_write(options.limits) as file:
                    file.write(network_as_json(with_limits(network, measured)).encode())
    except (InvalidNetworkError, InvalidPolicyFileError, InvalidScenarioError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
