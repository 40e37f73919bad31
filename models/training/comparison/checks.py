"""What is looked at before anything is simulated: whether net, routes and policy fit together."""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import sumo

from models.networks.network import network_of
from models.policy.step import PolicyStep
from models.simulation.city.scenario import CityScenario, InvalidScenarioError
from models.simulation.city.sumo_run import command_of
from models.sumo.net import read_sumo_net


def check_signals(scenario: CityScenario) -> None:
    """Compare the net's programs with what the network file says of its signals.

    Raises:
        InvalidNetworkError: the net cannot be read.
        InvalidScenarioError: a signal is missing, or is another.
    """
    programs = read_sumo_net(scenario.net).programs
    name, net = scenario.network.name, scenario.net.name
    for junction in scenario.network.junctions:
        if not programs.get(junction.id):
            raise InvalidScenarioError(f"{net} has no signal {junction.id}, which {name} has.")
        states = programs[junction.id][-1].states
        if not states or not all(states):
            raise InvalidScenarioError(
                f"{net}: the program of signal {junction.id} has phases without states."
            )
        letters, expected = len(states[0]), len(junction.phases[0].state or "")
        if letters != expected:
            raise InvalidScenarioError(
                f"{net}: signal {junction.id} has {letters} links, in {name} it has {expected}."
            )


def check_policy(scenario: CityScenario, policy: Path) -> None:
    """Read a policy as the service would.

    Raises:
        InvalidPolicyFileError: it is none, or of another city; both shapes are named.
    """
    PolicyStep.load(policy, network_of(scenario.network))


def check_routes(scenario: CityScenario) -> None:
    """Let SUMO drive all vehicles once; it looks at the routes of each when it departs.

    Raises:
        InvalidScenarioError: such as for a route that leaves the network.
    """
    with TemporaryDirectory(prefix="greenwave-") as folder:
        command = command_of(scenario, 0, Path(folder, "trips.xml"))
        command[0] = str(Path(sumo.SUMO_HOME, "bin", "sumo"))
        ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        said = next((line for line in ran.stderr.splitlines() if line.strip()), "no reason")
        files = ", ".join(each.name for each in scenario.routes)
        raise InvalidScenarioError(f"SUMO cannot drive {files} on {scenario.net.name}: {said}")
