"""Rules as weights, in a town of two junctions with a lane for one vehicle between them."""

import numpy as np
import pytest
import torch

from lab.sim.observation import encode_observation
from lab.train.greedy import make_greedy
from lab.train.policy_network import RecurrentPolicy, initialise
from models.networks.form import NetworkFile
from models.networks.network import network_of
from models.policy.form import HIDDEN_DIM, PolicyForm
from models.policy.inputs import InputLayout
from models.policy.step import PolicyStep

CAPACITIES = 1.6, 30.0, 20.0
STATES = "grG", "Grr", "rGr"  # by phase, of the short lane, the long one and a third


def junction(number: int) -> dict[str, object]:
    lanes = [{"id": f"{number}_{lane}", "capacity": each} for lane, each in enumerate(CAPACITIES)]
    links = [{"lane": lane["id"], "to": f"out_{number}"} for lane in lanes]
    phases = [{"state": state} for state in STATES]
    entry = {"agent_index": number, "phases": phases, "lanes": lanes, "links": links}
    return {"id": f"j{number}", **entry}


TOWN = NetworkFile.model_validate({"name": "twins", "junctions": [junction(0), junction(1)]})


def choose(clearing: bool, *counts: float, present: int = 2) -> list[int]:
    """Return what each junction does where both have these vehicles on their lanes."""
    torch.manual_seed(0)
    network = network_of(TOWN)
    policy = RecurrentPolicy(PolicyForm.of(network))
    initialise(policy, policy.fc2, output_gain=0.01)
    make_greedy(policy, TOWN, clearing)
    weights = {name: each.numpy() for name, each in policy.state_dict().items()}
    seen = encode_observation(present, len(STATES), True, counts, CAPACITIES)
    inputs = InputLayout(network).encode_all(dict.fromkeys(network.ids, seen))
    hidden = np.zeros((network.n_agents, HIDDEN_DIM), np.float32)
    step = PolicyStep(weights, network)(inputs, hidden, network.unavailable)
    return [int(action) for action in step.actions]


@pytest.mark.parametrize(
    ("counts", "phase"), [((0, 5, 0), 2), ((1, 0, 2), 0), ((1, 20, 0), 2), ((1, 0, 0), 1)]
)
def test_greedy_serves_the_most_vehicles_and_those_who_give_way_by_half(counts, phase):
    assert choose(False, *counts) == [phase, phase]


@pytest.mark.parametrize(
    ("counts", "phase"),
    [
        ((0, 5, 0), 2),
        ((1.6, 20, 5), 1),
        ((1.6, 28, 0), 2),
        ((0, 0, 3), 0),
        ((1.6, 0, 16), 1),  # 16 and those who give way, by half, would be more
    ],
)
def test_clearing_serves_a_full_short_lane_before_a_long_queue_and_trusts_no_gaps(counts, phase):
    assert choose(True, *counts) == [phase, phase]


def test_of_equals_the_present_phase_stays():
    assert choose(False, 0, 4, 4, present=0) == [0, 0]
    assert choose(False, 0, 4, 4, present=2) == [2, 2]
