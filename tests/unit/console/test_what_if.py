from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from deployments.console.what_if import VALUES, WhatIf
from deployments.feed.messages import Decision
from deployments.http.errors import RefusedError
from models.networks.network import Network
from models.networks.shipped import JUNCTIONS, SHIPPED
from models.policy.inputs import InputLayout
from models.policy.step import PolicyStep
from tests.cities import agent_for, small_city
from tests.cities import save as save_agent
from tests.reference import random_state_dict
from tests.unit.console.reports import OBSERVATION, SMALL

AGENT = JUNCTIONS[SMALL].agent_index
LANE = 1
PLACE = JUNCTIONS[SMALL].n_phases + 1 + LANE


def decision_of(
    policy: PolicyStep,
    file: Path | str,
    network: Network = SHIPPED,
    junction: str = SMALL,
    observation: Sequence[float] = OBSERVATION,
) -> Decision:
    """Make the decision of a policy, which began at another state than zeros."""
    agents = [network.junctions[junction].agent_index]
    hidden = np.linspace(-0.5, 0.5, 128, dtype=np.float32)
    unavailable = network.unavailable[agents]
    step = policy(InputLayout(network).encode(agents, [observation]), hidden[None], unavailable)
    (probabilities,) = policy.probabilities(step.hidden, unavailable)
    action = int(step.actions[0])
    made = (action, 7, probabilities.tolist(), hidden, str(file))
    return Decision(0.0, "run", junction, list(observation), *made)


def save(path: Path, seed: int) -> PolicyStep:
    weights = random_state_dict(seed)
    torch.save(weights, path)
    return PolicyStep(weights, SHIPPED)


async def test_the_curve_is_what_the_policy_would_do_from_the_same_hidden_state(tmp_path):
    file = tmp_path / "agent.th"
    policy = save(file, 1)
    decision = decision_of(policy, file)
    curve = await WhatIf().curve(decision, LANE)
    assert (curve["step"], curve["lane"], curve["value"]) == (7, LANE, OBSERVATION[PLACE])
    assert curve["values"] == VALUES.round(4).tolist()
    assert decision.hidden is not None
    for at in (0, 20, 40):
        longer = [*OBSERVATION[:PLACE], VALUES[at], *OBSERVATION[PLACE + 1 :]]
        inputs = InputLayout(SHIPPED).encode([AGENT], [np.array(longer, np.float32)])
        step = policy(inputs, decision.hidden[None], SHIPPED.unavailable[[AGENT]])
        (expected,) = policy.probabilities(step.hidden, SHIPPED.unavailable[[AGENT]])
        told = [probabilities[at] for probabilities in curve["probabilities"]]
        assert told == pytest.approx(expected.tolist(), abs=1e-3)
    assert np.ptp(curve["probabilities"], axis=1).max() > 0.001


async def test_the_curve_has_the_decision_that_was_made(tmp_path):
    policy = save(tmp_path / "agent.th", 1)
    decision = decision_of(policy, tmp_path / "agent.th")
    curve = await WhatIf().curve(decision, LANE + 2)
    made = [each[curve["values"].index(curve["value"])] for each in curve["probabilities"]]
    assert curve["value"] == OBSERVATION[PLACE + 2]
    assert made == pytest.approx(decision.probabilities, abs=1e-3)


async def test_another_policy_in_the_file_does_not_speak_for_the_one_that_decided(tmp_path):
    file = tmp_path / "agent.th"
    decision = decision_of(save(file, 1), file)
    what_if = WhatIf()
    await what_if.curve(decision, LANE)
    save(file, 2)
    with pytest.raises(RefusedError, match="does not hold the policy"):
        await what_if.curve(decision, LANE)
    for gone in (str(tmp_path / "gone.th"), ""):
        with pytest.raises(RefusedError, match="does not hold the policy"):
            await what_if.curve(replace(decision, policy=gone), LANE)


@pytest.mark.parametrize("lane", [-1, JUNCTIONS[SMALL].n_lanes])
async def test_a_lane_that_is_not_there_is_refused(tmp_path, lane):
    file = tmp_path / "agent.th"
    with pytest.raises(RefusedError, match="no lane"):
        await WhatIf().curve(decision_of(save(file, 1), file), lane)


async def test_a_policy_of_another_network_is_stepped_with_its_own_sizes(tmp_path):
    network = small_city()
    file = save_agent(agent_for(network), tmp_path / "city.th")
    policy = PolicyStep.load(file, network)
    decision = decision_of(policy, file, network, "west", [0.0, 1.0, 1.0, 0.25, 0.5, 0.0, 0.75])
    curve = await WhatIf(network).curve(decision, 3)
    assert (curve["value"], len(curve["probabilities"])) == (0.75, network.n_actions)
    with pytest.raises(RefusedError, match="shows the network greenwave only"):
        await WhatIf().curve(decision, 3)
