"""Episodes driven by a sampling policy, in worker processes: SUMO keeps one simulation in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from models.junctions import JUNCTIONS, N_AGENTS
from models.policy.form import HIDDEN_DIM
from models.policy.inputs import encode_all
from models.policy.network import RecurrentPolicy, mask_logits
from models.simulation.controllers import PolicyController
from models.simulation.environment import Scenario
from models.simulation.episode import run_episode
from models.simulation.metrics import Metrics
from models.simulation.road_network import read_network
from models.training.processes import make_pool
from models.training.signals_env import Reward, SignalsEnv

Weights = Mapping[str, NDArray[np.float32]]  # arrays travel between processes as plain bytes

AVAIL_ACTIONS = torch.tensor([junction.avail_actions for junction in JUNCTIONS.values()])


class Task(NamedTuple):
    """An episode to drive: its traffic, and which repeat of it; both draw the actions."""

    scenario: Scenario
    seed: int
    repeat: int
    reward: Reward
    team_share: float


@dataclass(frozen=True)
class Episode:
    """T decisions of all A agents.

    Attributes:
        inputs: (T, A, INPUT_DIM) what the policy saw.
        states: (T + 1, STATE_DIM) what the critic sees, the end included.
        actions: (T, A) sampled.
        free: (T, A) False where yellow or minimum green left no choice.
        rewards: (T, A).
        metrics: how it went.
    """

    inputs: NDArray[np.float32]
    states: NDArray[np.float32]
    actions: NDArray[np.int64]
    free: NDArray[np.bool_]
    rewards: NDArray[np.float32]
    metrics: Metrics


class RolloutWorkers:
    """Processes that drive episodes. Which of them drives an episode makes no difference to it."""

    def __init__(self, number: int) -> None:
        self._pool = make_pool(number)

    def drive(self, weights: Weights, tasks: Sequence[Task]) -> list[Episode]:
        """Return the episodes in the order of their tasks, however long that takes."""
        heavy_first = sorted(tasks, key=lambda task: -task.scenario.demand_scale)
        running = {task: self._pool.submit(_drive, weights, task) for task in heavy_first}
        return [running[task].result() for task in tasks]

    def test(self, weights: Weights, runs: Sequence[tuple[Scenario, int]]) -> list[Metrics]:
        """How the greedy policy, as it is served, does in each scenario with its seed."""
        running = [self._pool.submit(_test, weights, *run) for run in runs]
        return [future.result() for future in running]

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def _drive(weights: Weights, task: Task) -> Episode:
    return drive_episode(_make_policy(weights), task)


def _test(weights: Weights, scenario: Scenario, seed: int) -> Metrics:
    return run_episode(PolicyController(_make_policy(weights)), scenario, seed)


def _make_policy(weights: Weights) -> RecurrentPolicy:
    torch.set_num_threads(1)
    policy = RecurrentPolicy()
    policy.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    return policy


@torch.inference_mode()
def drive_episode(policy: RecurrentPolicy, task: Task) -> Episode:
    """Drive one episode in this process with actions sampled from the policy."""
    rng = np.random.default_rng((task.seed, task.repeat))
    network = read_network()
    env = SignalsEnv(lambda _: task.scenario, task.reward, task.team_share, network)
    inputs, states, actions, free, rewards = [], [], [], [], []
    try:
        observations, _ = env.reset(task.seed)
        hidden = torch.zeros(N_AGENTS, HIDDEN_DIM)
        while env.agents:
            seen = {agent: observations[agent]["observation"] for agent in JUNCTIONS}
            inputs.append(encode_all(seen))
            states.append(env.state())
            free.append(
                [seen[junction.id][junction.n_phases] > 0 for junction in JUNCTIONS.values()]
            )
            logits, hidden = policy(torch.from_numpy(inputs[-1]), hidden)
            gumbel = rng.gumbel(size=logits.shape)
            chosen = (mask_logits(logits, AVAIL_ACTIONS).numpy() + gumbel).argmax(axis=1)
            actions.append(chosen)
            observations, reward, _, _, _ = env.step(
                dict(zip(JUNCTIONS, chosen.tolist(), strict=True))
            )
            rewards.append(list(reward.values()))
        states.append(env.state())
        metrics = env.metrics()
    finally:
        env.close()
    return Episode(
        inputs=np.array(inputs),
        states=np.array(states),
        actions=np.array(actions),
        free=np.array(free),
        rewards=np.array(rewards, np.float32),
        metrics=metrics,
    )
