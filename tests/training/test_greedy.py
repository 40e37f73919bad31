"""Rules as weights, in a town of two junctions with a lane for one vehicle between them."""

import numpy as np
import pytest
import torch

from lab.sim.observation import encode_observation
from lab.train.greedy import greedy_policy
from lab.train.policy_network import new_policy
from models.networks.form import NetworkFile
from models.networks.network import network_of
from models.policy.form import HIDDEN_DIM
from models.policy.inputs import InputLayout
from models.policy.step import PolicyStep

CAPACITIES = 1.6, 30.0, 20.0
STATES = "grG", "Grr", "rGr"  # by phase, of the short lane, the long one and a third


def junction(number: int, size: float) -> dict[str, object]:
    lanes = [
        {"id": f"{number}_{lane}", "capacity": size * each} for lane, each in enumerate(CAPACITIES)
    ]
    links = [{"lane": lane["id"], "to": f"out_{number}"} for lane in lanes]
    phases = [{"state": state} for state in STATES]
    entry = {"agent_index": number, "phases": phases, "lanes": lanes, "links": links}
    return {"id": f"j{number}", **entry}


def town_of(n_junctions: int, growth: float = 0.0) -> NetworkFile:
    """Return a town whose junctions have each more room than the one before."""
    made = [junction(number, (1 + growth) ** number) for number in range(n_junctions)]
    return NetworkFile.model_validate({"name": "alike", "junctions": made})


def choose(*counts: float, present: int = 2, town: NetworkFile = town_of(2)) -> list[int]:  # noqa: B008
    """Return what each junction does where all have these vehicles on their lanes."""
    network = network_of(town)
    torch.manual_seed(0)
    policy = greedy_policy(town)
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
    assert choose(*counts) == [phase, phase]


def test_of_equals_the_present_phase_stays():
    assert choose(0, 4, 4, present=0) == [0, 0]
    assert choose(0, 4, 4, present=2) == [2, 2]


def test_junctions_of_the_same_form_share_the_units_that_begin_as_greedy():
    assert choose(0, 5, 0, town=town_of(50, 0.001)) == [2] * 50
    assert choose(1, 0, 2, town=town_of(50, 0.001)) == [0] * 50


def test_a_city_with_more_phases_than_units_begins_with_random_weights():
    city = town_of(50, 0.15)
    torch.manual_seed(0)
    random = new_policy(network_of(city)).state_dict()
    torch.manual_seed(0)
    for name, weights in greedy_policy(city).state_dict().items():
        assert weights.equal(random[name])
