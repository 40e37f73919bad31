"""examples/traci drives the same traffic as the evaluated policy does in one process."""

import re

import libsumo

from lab.sim.controllers import open_run, policy_control
from lab.sim.shipped import MORNING_RUSH_S, shipped_demand, shipped_scenario
from models.policy.form import SHIPPED_POLICY

MINUTES, SEED = 6, 3
LINE = re.compile(r"minute (\d+): (\d+) vehicles, (\d+) arrived")


def driven_in_process() -> tuple[list[int], int]:
    """Return the vehicles under way after each minute, and those arrived at the end."""
    scenario = shipped_scenario(shipped_demand(MORNING_RUSH_S, 60 * MINUTES))
    vehicles = []
    with open_run(scenario, SEED, policy_control(scenario, SHIPPED_POLICY)) as run:
        environment, controller, observations = run
        while not environment.is_over:
            observations = environment.step(controller.act(observations))
            if (environment.time_s - MORNING_RUSH_S) % 60 == 0:
                vehicles.append(libsumo.vehicle.getIDCount())
        return vehicles, environment.metrics().arrived


def test_traffic_is_that_of_the_policy(served, run_example):
    arguments = ["--url", served, "--seconds", str(60 * MINUTES), "--seed", str(SEED)]
    printed = run_example("traci/loop.py", *arguments)
    minutes = [tuple(map(int, found)) for found in LINE.findall(printed)]
    assert [minute for minute, *_ in minutes] == list(range(1, MINUTES + 1))
    vehicles, arrived = driven_in_process()
    assert arrived > 0
    assert ([each[1] for each in minutes], minutes[-1][2]) == (vehicles, arrived)
