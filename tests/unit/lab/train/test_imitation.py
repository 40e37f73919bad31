"""What a policy learns from the planner, and that it continues where it stopped."""

from collections.abc import Iterable

import numpy as np
import pytest

from lab.train.imitation import TEMPERATURE_S, Demonstration, Student, likelihoods
from lab.train.policy_network import read_policy
from models.networks.shipped import SHIPPED
from models.policy.form import SHIPPED_POLICY, PolicyForm

N_AGENTS, N_DECISIONS = SHIPPED.n_agents, 20


def student_of(demonstrations: Iterable[Demonstration] = (), seed: int = 0) -> Student:
    student = Student(SHIPPED, read_policy(SHIPPED_POLICY, SHIPPED), {"seed": seed})
    for each in demonstrations:
        student.watch(each)
    return student


@pytest.fixture
def demonstrations() -> list[Demonstration]:
    rng = np.random.default_rng(1)
    made = []
    for _ in range(3):
        inputs = rng.random((N_DECISIONS, N_AGENTS, PolicyForm.of(SHIPPED).input_dim), np.float32)
        targets = np.zeros((N_DECISIONS, N_AGENTS, SHIPPED.n_actions), np.float32)
        targets[..., 1] = 1
        weights = np.ones(targets.shape[:2], np.float32)
        made.append({"inputs": inputs, "targets": targets, "weights": weights})
    return made


def test_the_cheaper_a_plan_the_likelier_is_its_action():
    costs = {name: np.array([3.0, 3.0 - TEMPERATURE_S]) for name in SHIPPED.ids}
    first, *others = SHIPPED.ids
    costs[first] = np.array([4.0, np.inf, 4.0, np.inf])
    targets = likelihoods(costs, SHIPPED)
    np.testing.assert_allclose(targets.sum(1), 1)
    np.testing.assert_allclose(targets[0], [0.5, 0, 0.5, 0])
    likely = 1 / (1 + np.exp(-1))
    for row in range(1, 1 + len(others)):
        np.testing.assert_allclose(targets[row], [1 - likely, likely, 0, 0], rtol=1e-6)


def test_the_policy_learns_what_is_demonstrated(demonstrations):
    student = student_of(demonstrations)
    rng = np.random.default_rng(0)
    losses = [student.learn(rng) for _ in range(20)]
    assert losses[-1] < losses[0] / 3


def test_decisions_without_weight_teach_nothing(demonstrations):
    half = N_DECISIONS // 2
    learnt = []
    for share in (0.0, 1.0):
        one = {name: part.copy() for name, part in demonstrations[0].items()}
        one["weights"][half:] = 0
        one["targets"][half:] = np.array([share, 1 - share, 0, 0], np.float32)
        student = student_of([one])
        student.learn(np.random.default_rng(0))
        learnt.append(student.weights())
    for name, part in learnt[0].items():
        np.testing.assert_array_equal(part, learnt[1][name])


def test_a_run_that_is_continued_learns_what_one_without_a_stop_learns(tmp_path, demonstrations):
    path = tmp_path / "imitation.pt"
    whole = student_of(demonstrations)
    whole.learn(np.random.default_rng(0))
    whole.round = 1
    whole.save(path)
    continued = student_of()
    continued.resume(path)
    assert (continued.round, len(continued.episodes)) == (1, 3)
    for student in (whole, continued):
        student.finish(2, np.random.default_rng(1))
    for name, part in whole.weights().items():
        np.testing.assert_array_equal(part, continued.weights()[name])
