"""The policy acts in vector environments, with a run for each environment."""

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from greenwave.client import (
    Client,
    InvalidInputError,
    InvalidRequestError,
    Retries,
    UnknownOutcomeError,
    VectorPolicy,
)
from tests.unit.greenwave.client.fake_inference import FakeInference

SMALL, BIG = "300839359", "joinedS_265580996_300839357"
SIZES = {SMALL: 8, BIG: 19}
N = 4


class Counting(gymnasium.Env[Any, Any]):
    """Observes the number of its steps and its own, and requires that as action."""

    def __init__(self, number: int, named: bool, length: int = 99) -> None:
        self.number, self.named, self.length = number, named, length
        one = spaces.Discrete(1000)
        boxes: dict[str, spaces.Space[Any]] = {
            name: spaces.Box(0, 1000, (size,)) for name, size in SIZES.items()
        }
        self.observation_space = spaces.Dict(boxes) if named else boxes[SMALL]
        self.action_space = spaces.Dict(dict.fromkeys(SIZES, one)) if named else one

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.n_steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        for each in action.values() if self.named else [action]:
            assert each == 100 * self.number + self.n_steps
        self.n_steps += 1
        return self._observe(), 0.0, self.n_steps == self.length, False, {}

    def _observe(self) -> Any:
        value = 100 * self.number + self.n_steps
        rows = {name: np.full(size, value, np.float32) for name, size in SIZES.items()}
        return rows if self.named else rows[SMALL]


@pytest.fixture
def service() -> FakeInference:
    return FakeInference()


@pytest.fixture
def client(service: FakeInference) -> Client:
    return Client("http://inference", exchange=service, retries=Retries(first_pause_s=0.001))


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
@pytest.mark.parametrize("named", [False, True])
def test_it_acts_in_a_vector_environment_of_gymnasium(client, service, named, mode):
    next_step = mode is AutoresetMode.NEXT_STEP
    envs = SyncVectorEnv(
        [partial(Counting, n, named, 3 + n) for n in range(N)], autoreset_mode=mode
    )
    policy = VectorPolicy(client, N, "v", None if named else SMALL)
    observations, _ = envs.reset()
    ended = np.zeros(N, bool)
    for _ in range(10):
        actions = policy.act(observations)
        assert isinstance(actions[SMALL] if named else actions, np.ndarray)
        observations, _, terminated, truncated, _ = envs.step(actions)
        before, ended = ended, terminated | truncated
        policy.reset(before if next_step else ended)
    # Episodes of 3 to 6 steps, or one more action that is ignored, each begin from zeros.
    lengths = [3 + n + next_step for n in range(N)]
    expected = {(f"v-{n}", SMALL): 10 % length or length for n, length in enumerate(lengths)}
    assert {state: n for state, n in service.steps.items() if state[1] == SMALL} == expected
    assert len(service.steps) == (2 * N if named else N)


def test_it_acts_in_parallel_environments_of_pettingzoo_whose_agents_may_leave(client, service):
    policy = VectorPolicy(client, 2, "p")
    both = {SMALL: np.array([1.0]), BIG: np.array([2.0, 0.5])}
    assert policy.act([both, both]) == [{SMALL: 1, BIG: 2}] * 2
    assert policy.act([both, {BIG: [3]}]) == [{SMALL: 1, BIG: 2}, {BIG: 3}]
    assert policy.act([{}, {BIG: [3]}]) == [{}, {BIG: 3}]
    assert service.steps == {("p-0", SMALL): 2, ("p-0", BIG): 2, ("p-1", SMALL): 1, ("p-1", BIG): 3}


def test_only_the_environments_of_the_reset_begin_from_zeros(client, service):
    policy = VectorPolicy(client, N, "r", SMALL)
    rows = [[n] for n in range(N)]

    def steps() -> list[int]:
        assert policy.act(rows) == list(range(N))
        return [service.steps[f"r-{n}", SMALL] for n in range(N)]

    assert [steps(), steps()] == [[1] * N, [2] * N]
    policy.reset([True, False, False, True])
    policy.reset([1])
    policy.reset([])
    assert steps() == [1, 1, 3, 1]
    policy.reset(np.array([False, False, True, False]))
    policy.reset(np.array([0]))
    assert steps() == [1, 2, 1, 2]
    policy.reset(list(np.array([False, False, False, True])))
    policy.reset(list(np.array([1])))
    assert steps() == [2, 1, 2, 1]
    policy.reset()
    assert steps() == [1] * N
    assert len(service.calls) == 9  # two where some begin and others go on


def test_a_new_policy_begins_from_zeros_in_runs_that_exist(client, service):
    for _ in range(2):
        VectorPolicy(client, 1, "n", SMALL).act([[1]])
    assert service.steps == {("n-0", SMALL): 1}


@pytest.mark.parametrize("lost", [False, True])
def test_the_key_of_an_error_repeats_the_steps(client, service, lost):
    policy = VectorPolicy(client, 2, "k", SMALL)
    policy.act([[1], [1]])
    policy.reset([0])
    if lost:
        service.lost = {3, 4, 5, 6}
    else:
        service.failing = {"k-1": [503] * 4}
    with pytest.raises(UnknownOutcomeError) as raised:
        policy.act([[2], [3]])
    assert policy.act([[2], [3]], key=raised.value.key) == [2, 3]
    assert service.steps == {("k-0", SMALL): 1, ("k-1", SMALL): 2}


def test_a_refused_step_is_not_repeated(client, service):
    policy = VectorPolicy(client, 2, "x", SMALL)
    service.failing = {"x-1": [422]}
    with pytest.raises(
        InvalidRequestError, match=r"1 of 2 steps failed.* in the run x-1"
    ) as raised:
        policy.act([[2], [3]])
    assert raised.value.status == 422
    assert len(service.calls) == 1


def test_many_environments_are_several_calls(client, service):
    n = 1500
    policy = VectorPolicy(client, n, "m")
    for _ in range(2):
        blocks = {name: np.arange(n, dtype=np.float32)[:, None] for name in SIZES}
        actions = policy.act(blocks)
        assert all((each == np.arange(n)).all() for each in actions.values())
    assert max(map(len, service.calls)) == 1024
    assert set(service.steps.values()) == {2}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda policy: policy.act([[1]]), "1 values for 2 environments"),
        (lambda policy: policy.act({SMALL: [[1]]}), "1 values for 2 environments"),
        (lambda policy: policy.act([[1], [1]]), "needs junction"),
        (lambda policy: policy.act({SMALL: [1, 1]}), "rows of numbers"),
        (lambda policy: policy.reset([True]), "1 values for 2 environments"),
        (lambda policy: policy.reset([2]), "Environments are 0 to 1"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(client, wrong, message):
    with pytest.raises(InvalidInputError, match=message):
        wrong(VectorPolicy(client, 2, "w"))
