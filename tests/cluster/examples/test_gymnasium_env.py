"""examples/gymnasium_env takes the actions of the policy."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

from examples.gymnasium_env.env import TrafficEnv
from lab.sim.controllers import policy_control
from models.policy.form import SHIPPED_POLICY
from tests.cluster.examples.conftest import RunExample

STEPS, SEED = 24, 5
LINE = re.compile(r"actions (\[.*\]), reward (\S+)")


def driven_in_process() -> list[tuple[str, str]]:
    """Return actions and reward of each step with the policy in this process."""
    env = TrafficEnv(5 * STEPS)
    observations, _ = env.reset(seed=SEED)
    policy = policy_control(env.simulation.scenario, SHIPPED_POLICY)(env.simulation)
    taken = []
    over = False
    while not over:
        actions = policy.act(observations)
        observations, reward, _, over, _ = env.step(actions)
        taken.append((str([actions[name] for name in observations]), f"{reward:.0f}"))
    env.close()
    return taken


def test_every_action_is_that_of_the_policy(served: str, run_example: RunExample) -> None:
    arguments = ["--url", served, "--steps", str(STEPS), "--seed", str(SEED)]
    printed = run_example("gymnasium_env/env.py", *arguments)
    taken = LINE.findall(printed)
    assert len(taken) == STEPS
    assert taken == driven_in_process()
