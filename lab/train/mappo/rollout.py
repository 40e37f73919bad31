"""Episodes driven by a sampling policy, in worker processes: SUMO keeps one simulation in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from lab.sim.controllers import Controller, FixedPhase, PolicyController, run
from lab.sim.environment import Environment
from lab.sim.faults import WithLosses
from lab.sim.metrics import Metrics
from lab.sim.processes import make_pool
from lab.train.mappo.config import Config
from lab.train.mappo.networks import Weights, avail_actions_of, make_policy
from lab.train.mappo.traffic import Task, Traffic
from lab.train.policy_network import RecurrentPolicy, mask_logits
from lab.train.signals import Signals
from models.policy.form import HIDDEN_DIM
from models.policy.inputs import InputLayout
from models.policy.step import PolicyStep


@dataclass(frozen=True)
class Episode:
    """T decisions of all A agents.

    Attributes:
        inputs: (T, A, input_dim) what the policy saw.
        states: (T + 1, state_dim) what the critic sees, the end included.
        actions: (T, A) sampled.
        free: (T, A) False where yellow, minimum green or maximum red left no choice.
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

    def __init__(self, number: int, traffic: Traffic, config: Config) -> None:
        self._traffic, self._config = traffic, config
        self._pool = make_pool(number)

    def drive(self, weights: Weights, tasks: Sequence[Task]) -> list[Episode]:
        """Return the episodes in the order of their tasks, however long that takes."""
        heavy_first = sorted(range(len(tasks)), key=lambda number: -tasks[number].effort)
        running = {
            number: self._pool.submit(_drive, self._traffic, self._config, weights, tasks[number])
            for number in heavy_first
        }
        return [running[number].result() for number in range(len(tasks))]

    def test(self, weights: Weights, tasks: Sequence[Task]) -> list[Metrics]:
        """Return how the policy, as it is served, does in each task."""
        running = [self._pool.submit(judge_policy, self._traffic, weights, task) for task in tasks]
        return [future.result() for future in running]

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def judge_policy(traffic: Traffic, weights: Weights, task: Task) -> Metrics:
    """Drive a task with the policy's most probable actions, as it is served."""
    step = PolicyStep(weights, traffic.network)

    def control(environment: Environment) -> Controller:
        policy = PolicyController(step, traffic.network)
        return WithLosses(policy, FixedPhase(), task.lost, task.seed) if task.lost else policy

    return run(task.scenario, task.seed, control)


def _drive(traffic: Traffic, config: Config, weights: Weights, task: Task) -> Episode:
    return drive_episode(traffic, config, make_policy(weights, traffic.network), task)


@torch.inference_mode()
def drive_episode(traffic: Traffic, config: Config, policy: RecurrentPolicy, task: Task) -> Episode:
    """Drive one episode in this process with actions sampled from the policy."""
    rng = np.random.default_rng((task.seed, task.repeat))
    lost_rng = np.random.default_rng(task.seed)
    network = traffic.network
    junctions = network.junctions
    layout, avail_actions = InputLayout(network), avail_actions_of(network)
    weights = config.team_share, config.pedestrian_weight, config.standing_weight
    signals = Signals(task.scenario, config.reward, *weights)
    inputs, states, actions, free, rewards = [], [], [], [], []
    try:
        observations = signals.reset(task.seed)
        hidden = torch.zeros(len(junctions), HIDDEN_DIM)
        while not signals.is_over:
            inputs.append(layout.encode_all(observations))
            states.append(signals.state())
            choices = signals.choices
            free.append([choices[each] for each in junctions])
            logits, hidden = policy(torch.from_numpy(inputs[-1]), hidden)
            gumbel = rng.gumbel(size=logits.shape)
            chosen = (mask_logits(logits, avail_actions).numpy() + gumbel).argmax(axis=1)
            actions.append(chosen)
            arrived = [0 if lost_rng.random() < task.lost else int(each) for each in chosen]
            observations, reward = signals.step(dict(zip(junctions, arrived, strict=True)))
            rewards.append(reward)
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
