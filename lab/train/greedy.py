"""The greedy controller as the weights of a policy: what training a city begins with.

For each phase of each junction one hidden unit counts the vehicles that the phase serves, and its
output is the phase's logit. So the policy does from the first episode on what greedy does; the
units that are left learn the rest. Junctions of equal form share their units.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from lab.sim.controllers import shares_served, walks_served
from lab.sim.environment import CALL_S
from lab.train.policy_network import RecurrentPolicy, new_policy
from models.networks.form import JunctionEntry, NetworkFile
from models.networks.network import LONGEST_CALL_S, network_of
from models.policy.form import HIDDEN_DIM

TEMPERATURE = 0.7  # vehicles by which a phase that serves fewer is e times less likely
HOLD = 0.3  # vehicles that the present phase is ahead: of equals it stays
VEHICLE = 0.02  # a vehicle in the unit's input, so small that tanh hardly bends it
OTHERS = 2.0  # more than all vehicles of a junction: silences the units of other agents
CALLED_VEHICLES = LONGEST_CALL_S / CALL_S  # that the longest call counts as
FORGETS = -4.0  # bias of the update gate: the unit follows its input
SPARE = 32  # hidden units
SAME_FORM = 0.1  # by how much the weights of junctions that share units may differ, relatively


@torch.no_grad()
def greedy_policy(network: NetworkFile) -> RecurrentPolicy:
    """Return a policy of which some units, from the first on, have the rule; the others are random.

    All are where the network has more phases than there are units, and some to spare.

    Args:
        network: with the states of its phases and its links.
    """
    policy = new_policy(network_of(network))
    rows = [_inputs(each, policy.fc1.in_features) for each in network.junctions]
    others, first_agent = OTHERS, policy.fc1.in_features - len(network.junctions)
    if network.pedestrian_calls:
        most = max(len(junction.crossings) for junction in network.junctions)
        others += VEHICLE * CALLED_VEHICLES * most
        for junction, inputs in zip(network.junctions, rows, strict=True):
            first = len(junction.phases) + 1 + len(junction.lanes)
            walks = torch.from_numpy(walks_served(junction)).float()
            inputs[:, first : first + walks.shape[1]] = VEHICLE * CALLED_VEHICLES * walks
    forms = _forms(rows)
    if sum(len(rows[first]) for first, *_ in forms) > HIDDEN_DIM - SPARE:
        return policy
    unit = 0
    for form in forms:
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
    return policy


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


def _inputs(junction: JunctionEntry, input_dim: int) -> torch.Tensor:
    """Return (phases, input_dim): what each phase's unit adds up of the observation."""
    n_phases = len(junction.phases)
    served = torch.from_numpy(shares_served(junction)).float()
    full = torch.tensor([lane.capacity for lane in junction.lanes])
    rows = torch.zeros(n_phases, input_dim)
    rows[:, :n_phases] = VEHICLE * HOLD * torch.eye(n_phases)
    first = n_phases + 1
    rows[:, first : first + len(junction.lanes)] = VEHICLE * served * full
    return rows
