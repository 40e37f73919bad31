"""The greedy controller as the weights of a policy: what training a city begins with.

For each phase of each junction one hidden unit counts the vehicles that the phase serves, and its
output is the phase's logit. So the policy does from the first episode on what greedy does, without
a demonstration; the units that are left learn the rest.
"""

from __future__ import annotations

import torch

from models.networks.form import JunctionEntry, NetworkFile
from models.networks.network import LONGEST_CALL_S
from models.policy.form import HIDDEN_DIM
from models.policy.network import RecurrentPolicy
from models.simulation.controllers import GREEDY, shares_served, walks_served
from models.simulation.environment import CALL_S

TEMPERATURE = 0.7  # vehicles by which a phase that serves fewer is e times less likely
HOLD = 0.3  # vehicles that the present phase is ahead: of equals it stays
VEHICLE = 0.02  # a vehicle in the unit's input, so small that tanh hardly bends it
CLEARING = GREEDY._replace(yielding=0.0)
OTHERS = 2.0  # more than all vehicles of a junction: silences the units of other agents
SHORT_LANE = 3.0  # vehicles: a lane with less room is between two signals, as a rule
CLEARED_FIRST = 25.0  # vehicles that a full one counts as
CALLED_VEHICLES = LONGEST_CALL_S / CALL_S  # that the longest call counts as
FORGETS = -4.0  # bias of the update gate: the unit follows its input


def fits(network: NetworkFile) -> bool:
    """Return whether there are enough hidden units, and some to spare."""
    return sum(len(each.phases) for each in network.junctions) <= HIDDEN_DIM - 32


@torch.no_grad()
def make_greedy(policy: RecurrentPolicy, network: NetworkFile, clearing: bool = False) -> None:
    """Set the weights of some units, from the first on; the others keep theirs.

    Args:
        policy: of the network, with the agents' one-hot in its input.
        network: with the states of its phases and its links.
        clearing: clear short lanes first. Vehicles there block the junction behind, and junctions
            that block each other jam permanently. Vehicles that have to give way count as
            not served, because dense traffic has no gaps.
    """
    others = 2 * OTHERS if clearing else OTHERS  # several lanes may count as CLEARED_FIRST then
    if network.pedestrian_calls:
        most = max(len(junction.crossings) for junction in network.junctions)
        others += VEHICLE * CALLED_VEHICLES * most
    first_agent = policy.fc1.in_features - len(network.junctions)
    unit = 0
    for junction in network.junctions:
        inputs = _inputs(junction, policy.fc1.in_features, clearing)
        if network.pedestrian_calls:
            first = len(junction.phases) + 1 + len(junction.lanes)
            walks = torch.from_numpy(walks_served(junction)).float()
            inputs[:, first : first + walks.shape[1]] = VEHICLE * CALLED_VEHICLES * walks
        for phase, row in enumerate(inputs):
            policy.fc1.weight[unit] = row
            policy.fc1.weight[unit, first_agent + junction.agent_index] = others
            policy.fc1.bias[unit] = -others
            update, candidate = HIDDEN_DIM + unit, 2 * HIDDEN_DIM + unit
            for gate in (update, candidate):
                for part in (policy.rnn.weight_ih, policy.rnn.weight_hh):
                    part[gate] = 0
            policy.rnn.weight_ih[candidate, unit] = 1
            policy.rnn.bias_ih[update] = FORGETS
            policy.fc2.weight[:, unit] = 0
            policy.fc2.weight[phase, unit] = 1 / (VEHICLE * TEMPERATURE)
            unit += 1


def _inputs(junction: JunctionEntry, input_dim: int, clearing: bool) -> torch.Tensor:
    """Return (phases, input_dim): what each phase's unit adds up of the observation."""
    n_phases = len(junction.phases)
    shares = shares_served(junction, CLEARING if clearing else GREEDY)
    served = torch.from_numpy(shares).float()
    full = torch.tensor([lane.capacity for lane in junction.lanes])
    if clearing:
        full[full < SHORT_LANE] = CLEARED_FIRST
    rows = torch.zeros(n_phases, input_dim)
    rows[:, :n_phases] = VEHICLE * HOLD * torch.eye(n_phases)
    first = n_phases + 1
    rows[:, first : first + len(junction.lanes)] = VEHICLE * served * full
    return rows
