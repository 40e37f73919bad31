"""Episodes driven by a sampling policy, in worker processes: SUMO keeps one simulation in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from models.policy.form import HIDDEN_DIM
from models.policy.inputs import InputLayout
from models.policy.network import RecurrentPolicy, mask_logits
from models.simulation.metrics import Metrics
from models.training.mappo.networks import avail_actions_of, make_policy
from models.training.mappo.problem import Problem, Task, Weights
from models.training.processes import make_pool


@dataclass(frozen=True)
class Episode:
    """T decisions of all A agents.

    Attributes:
        inputs: (T, A, input_dim) what the policy saw.
        states: (T + 1, state_dim) what the critic sees, the end included.
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

    def __init__(self, number: int, problem: Problem) -> None:
        self._problem = problem
        self._pool = make_pool(number)

    def drive(self, weights: Weights, tasks: Sequence[Task]) -> list[Episode]:
        """Return the episodes in the order of their tasks, however long that takes."""
        heavy_first = sorted(range(len(tasks)), key=lambda number: -tasks[number].effort)
        running = {
            number: self._pool.submit(_drive, self._problem, weights, tasks[number])
            for number in heavy_first
        }
        return [running[number].result() for number in range(len(tasks))]

    def test(self, weights: Weights, runs: Sequence[tuple[Any, int]]) -> list[Metrics]:
        """How the policy, as it is served, does in each scenario with its seed."""
        running = [self._pool.submit(self._problem.test, weights, *run) for run in runs]
        return [future.result() for future in running]

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def _drive(problem: Problem, weights: Weights, task: Task) -> Episode:
    return drive_episode(problem, make_policy(weights, problem.network), task)


@torch.inference_mode()
def drive_episode(problem: Problem, policy: RecurrentPolicy, task: Task) -> Episode:
    """Drive one episode in this process with actions sampled from the policy."""
    rng = np.random.default_rng((task.seed, task.repeat))
    junctions = problem.network.junctions
    layout, avail_actions = InputLayout(problem.network), avail_actions_of(problem.network)
    signals = problem.open(task)
    inputs, states, actions, free, rewards = [], [], [], [], []
    try:
        observations, _ = signals.reset(task.seed)
        hidden = torch.zeros(len(junctions), HIDDEN_DIM)
        while signals.agents:
            seen = {agent: observations[agent]["observation"] for agent in junctions}
            inputs.append(layout.encode_all(seen))
            states.append(signals.state())
            free.append([seen[each.id][each.n_phases] > 0 for each in junctions.values()])
            logits, hidden = policy(torch.from_numpy(inputs[-1]), hidden)
            gumbel = rng.gumbel(size=logits.shape)
            chosen = (mask_logits(logits, avail_actions).numpy() + gumbel).argmax(axis=1)
            actions.append(chosen)
            observations, reward, *_ = signals.step(
                dict(zip(junctions, chosen.tolist(), strict=True))
            )
            rewards.append(list(reward.values()))
        states.append(signals.state())
        metrics = signals.metrics()
    finally:
        signals.close()
    return Episode(
        inputs=np.array(inputs),
        states=np.array(states),
        actions=np.array(actions),
        free=np.array(free),
        rewards=np.array(rewards, np.float32),
        metrics=metrics,
    )
