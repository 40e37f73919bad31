"""What is looked at before anything is simulated: whether net, routes and policy fit together."""

from __future__ import annotations

from pathlib import Path

import libsumo

from lab.processes import RunFolder
from lab.sim.layouts import known_lane
from lab.sim.scenario import InvalidScenarioError, Scenario
from lab.sim.simulator import drive, sumo_errors


def check_signals(scenario: Scenario) -> None:
    """Compare the net with what the network file says of its signals and their lanes.

    Raises:
        InvalidNetworkError: the net cannot be read.
        InvalidScenarioError: a signal or a lane is missing, or a signal is another.
    """
    read = scenario.sumo_net
    programs, name, net = read.programs, scenario.network.name, scenario.net.name
    for junction in scenario.network.junctions:
        if not programs.get(junction.id):
            raise InvalidScenarioError(f"{net} has no signal {junction.id}, which {name} has.")
        states = programs[junction.id][-1].states
        if not states:
            raise InvalidScenarioError(
                f"SUMO's files switch signal {junction.id} off: choose a program with --program."
            )
        if not all(states):
            raise InvalidScenarioError(
                f"{net}: the program of signal {junction.id} has phases without states."
            )
        letters, expected = len(states[0]), len(junction.phases[0].state or "")
        if letters != expected:
            raise InvalidScenarioError(
                f"{net}: signal {junction.id} has {letters} links, in {name} it has {expected}."
            )
        for lane in junction.lanes:
            for each in (lane.id, *(behind.lane for behind in lane.behind or ())):
                known_lane(read, each)


def check_routes(scenario: Scenario) -> None:
    """Let SUMO drive all vehicles once; it looks at the routes of each when it departs.

    Raises:
        InvalidScenarioError: such as for a route that leaves the network.
    """
    with RunFolder() as folder, sumo_errors(scenario):
        drive(scenario, 0, Path(folder))
        libsumo.close()
