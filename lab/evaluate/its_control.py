"""Compares max pressure of sumoITScontrol with ours: ``python -m lab.evaluate.its_control``.

K. Riehl and J. Schlapbach, https://github.com/kriehl/sumoITScontrol, GPL-3.0: so it is no
dependency. ``pip install --no-deps --target FOLDER sumoITScontrol`` installs it, and
``PYTHONPATH=FOLDER`` names it. Its controllers run in SUMO's library, with the parameters of its
documentation, from the stages of the network file with 3 s of yellow.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

import libsumo

from lab.evaluate.cases import LEVELS, with_margins
from lab.evaluate.statistics import estimate
from lab.processes import in_fresh_process, make_pool
from lab.sim.controllers import CONTROLS, run
from lab.sim.environment import Environment
from lab.sim.options import add_scenario, scenario_of
from lab.sim.programs import free_id, program_element
from lab.sim.scenario import Scenario
from lab.tables import markdown
from models.networks.form import JunctionEntry

FIXED, FLEXIBLE = "MaxPressure_Fix", "MaxPressure_Flex"
OURS = "fixed time", "actuated", "delay-based", "max pressure", "pressure within 100 m"
YELLOW_S, HELD_S = 3, 10_000
PARAMETERS = {
    **{"T_L": YELLOW_S, "T_A": 5, "G_T_MIN": 5, "G_T_MAX": 50},
    **{"measurement_period": 1, "cycle_duration": 120},
}


def delay_s(scenario: Scenario, controller: str, seed: int) -> float:
    """Return the delay of a run in this process, which has not run SUMO."""
    if controller in OURS:
        return run(scenario, seed, CONTROLS[controller](scenario)).delay_s
    scenario = replace(scenario, decision_s=1, yellow_s=0, all_red_s=0)
    junctions = [each for each in scenario.network.junctions if len(each.phases) > 1]
    name = free_id(scenario.sumo_net)
    programs = [program_element(each.id, "static", "0", _phases(each), name) for each in junctions]
    with Environment(scenario, programs) as environment:
        environment.reset(seed)
        controllers = [_controller(controller, each) for each in junctions]
        while not environment.is_over:
            for each in controllers:
                each.execute_control(environment.time_s)
            environment.step({})
        return environment.metrics().delay_s


def _phases(junction: JunctionEntry) -> Iterator[dict[str, str]]:
    """Yield each stage and its yellow, both held until the controller ends them."""
    for green, yellow in _states(junction):
        for state in (green, yellow):
            yield {"duration": f"{HELD_S}", "state": state}


def _states(junction: JunctionEntry) -> list[tuple[str, str]]:
    greens = [phase.state or "" for phase in junction.phases]
    return [(green, green.translate(str.maketrans("Gg", "yy"))) for green in greens]


def _controller(name: str, junction: JunctionEntry) -> Any:
    vars(libsumo).setdefault("tc", libsumo.constants)
    sys.modules["traci"] = libsumo  # which the package imports
    package = import_module("sumoITScontrol")
    rules = import_module("sumoITScontrol.control.intersection_management")
    places = [2 * place for place in range(len(junction.phases))]
    lanes = {
        2 * place: [link.lane for at, link in junction.placed_links if green[at] in "Gg"]
        for place, (green, _) in enumerate(_states(junction))
    }
    known = {lane.id for lane in junction.lanes}
    lanes = {place: [*known.intersection(served)] for place, served in lanes.items()}
    greens, yellows = zip(*_states(junction), strict=True)
    intersection = package.Intersection(
        junction.id, places, links=lanes, green_states=greens, yellow_states=yellows
    )
    return getattr(rules, name)(PARAMETERS, intersection)


def _job(scenario: Scenario, controller: str, seed: int) -> float:
    return in_fresh_process(partial(delay_s, scenario, controller, seed))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add_scenario(parser, required=False)
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 1 on (default 5)")
    options = parser.parse_args(arguments)
    seeds, controllers = range(1, options.seeds + 1), (*OURS, FLEXIBLE, FIXED)
    with make_pool(os.cpu_count() or 1) as pool:
        rows = []
        for name in [options.network.stem] if options.network else LEVELS:
            cells = []
            for controller in controllers:
                scenarios = [
                    scenario_of(options) if options.network else with_margins(LEVELS[name](seed))
                    for seed in seeds
                ]
                delays_s = pool.map(_job, scenarios, [controller] * len(seeds), seeds)
                cells.append(estimate([*delays_s]))
            rows.append([name, *cells])
    sys.stdout.write("\n".join(markdown(["delay, s per vehicle", *controllers], rows)) + "\n")


if __name__ == "__main__":
    main()
