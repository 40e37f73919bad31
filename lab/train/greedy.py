"""The greedy controller as the weights of a policy: what training a city begins with.

For each phase of each junction one hidden unit counts the vehicles that the phase serves, and its
output is the phase's logit. So the policy does from the first episode on what greedy does, without
a demonstration; the units that are left learn the rest. Junctions of equal form share their units.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from lab.sim.controllers import GREEDY, shares_served, walks_served
from lab.sim.environment import CALL_S
from lab.train.policy_network import RecurrentPolicy
from models.networks.form import JunctionEntry, NetworkFile
from models.networks.network import LONGEST_CALL_S
from models.policy.form import HIDDEN_DIM

TEMPERATURE = 0.7  # vehicles by which a phase that serves fewer is e times less likely
HOLD = 0.3  # vehicles that the present phase is ahead: of equals it stays
VEHICLE = 0.02  # a vehicle in the unit's input, so small that tanh hardly bends it
CLEARING = GREEDY._replace(yielding=0.0)
OTHERS = 2.0  # more than all vehicles of a junction: silences the units of other agents
SHORT_LANE = 3.0  # vehicles: a lane with less room is between two signals, as a rule
CLEARED_FIRST = 25.0  # vehicles that a full one counts as
CALLED_VEHICLES = LONGEST_CALL_S / CALL_S  # that the longest call counts as
FORGETS = -4.0  # bias of the update gate: the unit follows its input
SAME_FORM = 0.1  # by how much the weights of junctions that share units may differ, relatively


def fits(network: NetworkFile) -> bool:
    """Return whether there are enough hidden units, and some to spare."""
    junctions = network.junctions
    most = max(len(each.phases) + 1 + len(each.lanes) for each in junctions)
    forms = _forms([_inputs(each, most, clearing=False) for each in junctions])
    return sum(len(junctions[first].phases) for first, *_ in forms) <= HIDDEN_DIM - 32


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
    rows = [_inputs(each, policy.fc1.in_features, clearing) for each in network.junctions]
    if network.pedestrian_calls:
        for junction, inputs in zip(network.junctions, rows, strict=True):
            first = len(junction.phases) + 1 + len(junction.lanes)
            walks = torch.from_numpy(walks_served(junction)).float()
            inputs[:, first : first + walks.shape[1]] = VEHICLE * CALLED_VEHICLES * walks
    unit = 0
    for form in _forms(rows):
        agents = [first_agent + network.junctions[each].agent_index for each in form]
        for phase, row in enumerate(rows[form[0]]):
            policy.fc1.weight[unit] = row
            policy.fc1.weight[unit, agents] = others
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


def _forms(rows: Sequence[torch.Tensor]) -> list[list[int]]:
    """Return the places of the junctions, those of the same form together."""
    forms: list[list[int]] = []
    for place, row in enumerate(rows):
        for form in forms:
            first = rows[form[0]]
            if row.shape == first.shape and torch.allclose(row, first, rtol=SAME_FORM):
                form.append(place)
                break
        else:
            forms.append([place])
    return forms


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
