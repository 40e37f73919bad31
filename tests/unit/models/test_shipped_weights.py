"""The shipped weights are this network's, and replaying a recorded hour gives its actions."""

from pathlib import Path

import numpy as np
import pytest

from lab.sim.controllers import PolicyController
from lab.sim.observation import Observation
from models.networks.shipped import JUNCTIONS, SHIPPED
from models.policy.form import SHIPPED_POLICY
from models.policy.step import PolicyStep

ROOT = Path(__file__).parents[3]
RECORDED = ROOT / "tests/data/observations.npz"


@pytest.fixture(scope="module")
def recorded() -> dict[str, np.ndarray]:
    with np.load(RECORDED) as file:
        return dict(file)


def replay(recorded: dict[str, np.ndarray]) -> np.ndarray:
    controller = PolicyController(PolicyStep.load(SHIPPED_POLICY, SHIPPED), SHIPPED)
    actions = []
    for decision in range(len(recorded["actions"])):
        observations: dict[str, Observation] = {j: recorded[j][decision] for j in JUNCTIONS}
        chosen = controller.act(observations)
        actions.append([chosen[j] for j in JUNCTIONS])
    return np.array(actions)


def test_replay_gives_the_recorded_actions(recorded: dict[str, np.ndarray]) -> None:
    # Other processors round differently, and a near tie may then fall the other way.
    assert (replay(recorded) == recorded["actions"]).mean() > 0.99
