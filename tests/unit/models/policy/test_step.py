import numpy as np
import pytest
import torch

from lab.train.policy_network import RecurrentPolicy
from models.networks.shipped import SHIPPED
from models.policy.form import PolicyForm
from models.policy.inputs import InputLayout
from models.policy.step import PolicyStep
from tests.reference import Doubles, ReferencePolicy, random_state_dict

UNAVAILABLE = SHIPPED.unavailable
encode = InputLayout(SHIPPED).encode


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scale", [0.5, 1.0, 5.0])
def test_a_run_of_batched_steps_equals_the_formulas(seed, scale):
    weights = random_state_dict(seed, scale)
    step, reference = PolicyStep(weights, SHIPPED), ReferencePolicy(weights)
    rng = np.random.default_rng(seed)
    agents = [0, 1, 2, 3, 4, 0, 2]
    junctions = list(SHIPPED.junctions)
    hidden = np.zeros((len(agents), 128), np.float32)
    expected: list[Doubles | None] = [None] * len(agents)
    for _ in range(40):
        observations = [
            rng.random(19 if agent == 0 else 8, np.float32).tolist() for agent in agents
        ]
        result = step(encode(agents, observations), hidden, UNAVAILABLE[agents])
        hidden = result.hidden
        for row, agent in enumerate(agents):
            action, confidence, expected[row] = reference.step(
                junctions[agent], observations[row], expected[row]
            )
            assert result.confidences[row] == pytest.approx(confidence, abs=2e-4)
            assert hidden[row] == pytest.approx(expected[row], abs=2e-4)
            if confidence > 0.501:  # else two actions are as good as equal
                assert result.actions[row] == action
    assert result.finite.all()


def test_an_unavailable_action_is_never_chosen_however_low_the_others_logits():
    weights = random_state_dict()
    weights["fc2.bias"][:] = -1e30
    hidden = np.zeros((1, 128), np.float32)
    result = PolicyStep(weights, SHIPPED)(encode([1], [[0.1]]), hidden, UNAVAILABLE[[1]])
    assert result.actions[0] in (0, 1)
    assert result.confidences[0] == 0.5


@pytest.mark.filterwarnings("error")
def test_a_row_that_overflows_is_marked_and_spoils_no_other():
    weights = random_state_dict()
    step = PolicyStep(weights, SHIPPED)
    usual = encode([3], [[0.5, 0.25]])
    wild = encode([3], [[3e38, -3e38] * 9])
    hidden = np.zeros((2, 128), np.float32)
    alone = step(usual, hidden[:1], UNAVAILABLE[[3]])
    both = step(np.concatenate([wild, usual]), hidden, UNAVAILABLE[[3, 3]])
    assert both.finite.tolist() == [False, True]
    assert np.allclose(both.hidden[1], alone.hidden[0], atol=1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("weight", [3e38, -3e38])
def test_finite_weights_whose_logits_overflow_are_marked(weight):
    weights = random_state_dict()
    weights["fc2.weight"][:] = weight
    weights["rnn.bias_ih"][:] = 5.0
    result = PolicyStep(weights, SHIPPED)(
        encode([0, 1], [[1.0]] * 2), np.full((2, 128), 0.9, np.float32), UNAVAILABLE[[0, 1]]
    )
    assert not result.finite.any()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_hidden_state_that_is_not_finite_is_marked(value):
    hidden = np.zeros((5, 128), np.float32)
    hidden[:, 7] = value
    result = PolicyStep(random_state_dict(), SHIPPED)(
        encode(range(5), [[1.0]] * 5), hidden, UNAVAILABLE
    )
    assert not np.isfinite(result.hidden).all(axis=1).any()
    assert not result.finite.any()


def test_hidden_states_are_never_written_again():
    step = PolicyStep(random_state_dict(), SHIPPED)
    inputs, before = encode([0, 1], [[1.0]] * 2), np.zeros((2, 128), np.float32)
    first = step(inputs, before, UNAVAILABLE[[0, 1]]).hidden
    kept = first.copy()
    second = step(inputs, first, UNAVAILABLE[[0, 1]]).hidden
    assert (before == 0.0).all()
    assert (first == kept).all()
    assert not np.shares_memory(first, second)


@pytest.mark.filterwarnings("error")
def test_saturated_gates_stay_finite():
    weights = random_state_dict(scale=1000.0)
    step = PolicyStep(weights, SHIPPED)
    result = step(encode([0], [[1e6] * 19]), np.full((1, 128), -1.0, np.float32), UNAVAILABLE[[0]])
    assert result.finite[0]
    assert np.abs(result.hidden).max() <= 1.0
    assert 0.25 <= result.confidences[0] <= 1.0


def test_the_entropy_is_that_of_the_distribution_over_what_the_junction_can_do():
    weights = random_state_dict(scale=1.0)
    step, network = PolicyStep(weights, SHIPPED), RecurrentPolicy(PolicyForm.of(SHIPPED))
    network.load_state_dict(weights)
    hidden = np.random.default_rng(0).standard_normal((2, 128)).astype(np.float32)
    agents = [0, 1]
    with torch.no_grad():
        logits = network.fc2(torch.from_numpy(hidden)).masked_fill(
            torch.from_numpy(UNAVAILABLE[agents]), -torch.inf
        )
    chances = torch.softmax(logits, dim=1).double()
    expected = torch.special.entr(chances).sum(dim=1).numpy()
    assert step.entropies(hidden, UNAVAILABLE[agents]) == pytest.approx(expected, abs=1e-5)
    assert step.entropies(hidden * 1e6, UNAVAILABLE[agents]) == pytest.approx([0, 0])
