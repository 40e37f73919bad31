"""A policy for any network, with the agent's one-hot in its input or without."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from lab.sim.controllers import PolicyController
from lab.train.policy_network import Driver, as_arrays, mask_logits
from models.networks.network import Network
from models.networks.shipped import SHIPPED
from models.policy.file import read_weights
from models.policy.form import InvalidPolicyFileError, PolicyForm
from models.policy.inputs import MAX_ONE_HOT, InputLayout
from models.policy.step import PolicyStep
from tests.cities import Agent, agent_for, city_of_size, save, small_city

CITIES = {"small": small_city(), "large": city_of_size(MAX_ONE_HOT + 6)}
SEES_AGENTS = pytest.mark.parametrize("agent_id", [True, False], ids=["one-hot", "without"])


def said_by(agent: nn.Module, network: Network, observations: list[list[float]]) -> Tensor:
    """Return the logits of all junctions for two equal steps, as EPyMARL lays the inputs out."""
    rows = torch.zeros(network.n_agents, network.max_obs)
    for row, observation in zip(rows, observations, strict=True):
        row[: len(observation)] = torch.tensor(observation)
    if agent.fc1.in_features > network.max_obs:  # type: ignore[union-attr, operator]
        rows = torch.cat([rows, torch.eye(network.n_agents)], 1)
    hidden = torch.zeros(network.n_agents, 128)
    for _ in range(2):
        logits, hidden = agent(rows, hidden)
    answers: Tensor = mask_logits(logits, torch.from_numpy(~network.unavailable))
    return answers


@SEES_AGENTS
@pytest.mark.parametrize("city", CITIES)
def test_an_agent_of_epymarls_form_is_served_as_it_answers_there(tmp_path, city, agent_id):
    network = CITIES[city]
    agent = agent_for(network, agent_id)
    policy = PolicyStep.load(save(agent, tmp_path / "agent.th"), network)
    assert policy.form == PolicyForm.of(network, agent_id)
    rng = np.random.default_rng(0)
    observations = [rng.random(each.obs_size).tolist() for each in network.junctions.values()]
    inputs = InputLayout(network).encode(range(network.n_agents), observations)
    hidden = np.zeros((network.n_agents, 128), np.float32)
    for _ in range(2):
        step = policy(inputs, hidden, network.unavailable)
        hidden = step.hidden
    with torch.no_grad():
        expected = torch.softmax(said_by(agent, network, observations), 1).max(1)
    assert step.confidences == pytest.approx(expected.values.numpy(), abs=1e-4)
    assert step.actions.tolist() == expected.indices.tolist()
    assert step.finite.all()


@pytest.mark.parametrize("city", CITIES)
def test_training_drives_by_what_is_served(city):
    network = CITIES[city]
    agent = agent_for(network)
    driver = Driver(as_arrays(agent.state_dict()), network)
    controller = PolicyController(PolicyStep(agent.state_dict(), network), network)
    observations = {name: [0.5] * each.obs_size for name, each in network.junctions.items()}
    for _ in range(2):
        _, logits = driver.step(observations)
        chosen = controller.act(observations)  # type: ignore[arg-type]
        assert [*chosen.values()] == logits.argmax(1).tolist()


@SEES_AGENTS
def test_agents_of_one_observation_differ_only_for_a_policy_that_sees_them(agent_id):
    network = CITIES["large"]
    policy = PolicyStep(agent_for(network, agent_id).state_dict(), network)
    agents = [0, 3, 66]  # of three phases each
    inputs = InputLayout(network).encode(agents, [[0.5] * 4] * 3)
    hidden = policy(inputs, np.zeros((3, 128), np.float32), network.unavailable[agents]).hidden
    assert (hidden[0] != hidden[1]).any() == agent_id
    assert (hidden[0] != hidden[2]).any() == agent_id


def refusal(agent: Agent, network: Network, folder) -> str:
    with pytest.raises(InvalidPolicyFileError) as refused:
        read_weights(save(agent, folder / "agent.th"), network)
    return str(refused.value).partition("agent.th: ")[2]


def test_the_policy_of_another_city_is_refused_with_both_shapes(tmp_path):
    assert refusal(agent_for(small_city()), SHIPPED, tmp_path) == (
        "fc1.weight has shape (128, 10), expected (128, 24), or (128, 19) without the agent's "
        "one-hot; the file may belong to another network than 'greenwave'"
    )


def test_a_policy_with_other_actions_is_refused_with_both_shapes(tmp_path):
    assert refusal(Agent(10, 4), small_city(), tmp_path) == (
        "fc2.weight has shape (4, 128), expected (3, 128); the file may belong to another network "
        "than 'a city'"
    )


def test_a_policy_of_another_width_is_refused_with_the_width_that_is_served(tmp_path):
    assert refusal(Agent(10, 3, hidden=64), small_city(), tmp_path) == (
        "fc1.weight has shape (64, 10), expected (128, 10); served are policies with a hidden_dim "
        "of 128"
    )


@pytest.mark.parametrize("inputs", [13, 10], ids=["beside the one-hot", "without"])
def test_a_policy_that_sees_its_last_action_is_refused_by_the_name_of_the_option(tmp_path, inputs):
    city = small_city() if inputs == 13 else city_of_size(5)
    actions = city.n_actions
    width = city.max_obs + actions + (city.n_agents if inputs == 13 else 0)
    assert "(obs_last_action) are not served" in refusal(Agent(width, actions), city, tmp_path)
