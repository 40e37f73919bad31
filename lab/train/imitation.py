"""Learning from the planner by DAgger.

The policy drives, and the planner says what it would do, so that the policy also learns to leave
its own mistakes (Ross, Gordon and Bagnell, "A Reduction of Imitation Learning and Structured
Prediction to No-Regret Online Learning", 2011).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils import clip_grad_norm_
from tqdm import tqdm

from lab.processes import make_pool
from lab.sim.environment import Environment
from lab.train.checkpoint import Resumable
from lab.train.mappo import Config
from lab.train.planner import Planner
from lab.train.policy_network import (
    Driver,
    Floats,
    RecurrentPolicy,
    Weights,
    as_arrays,
    avail_actions_of,
    unroll,
)
from lab.train.traffic import Task, Traffic
from models.networks.network import Network
from models.policy.form import HIDDEN_DIM

EPISODES = 8  # simulations per round
LEARNT = 128  # episodes that a round learns, in as many passes over all so far as that takes
FINAL_EPOCHS = 12  # passes after the last round, in which the step size falls to zero
RATE = 1e-3  # Adam's step size
SHARE_DECAY = 0.5  # of the decisions that the planner makes, from all in the first round
TEMPERATURE_S = 10.0  # vehicle-seconds: an action that costs as much more is e times rarer
FORCED_WEIGHT = 0.1  # of decisions in which signal times leave no choice
CHUNK = 60  # decisions per truncated back-propagation
BATCH = 8  # episodes
MAX_GRADIENT = 1.0


Demonstration = dict[str, Floats]
"""T decisions of all A agents: ``inputs`` (T, A, input_dim), what the policy saw; ``targets``
(T, A, n_actions), the planner's distribution; ``weights`` (T, A), how much each decision counts."""


def imitate(
    config: Config, traffic: Traffic, policy: RecurrentPolicy, kept: Path, workers: int
) -> None:
    """Make the rounds that were not made yet, then the final epochs.

    Args:
        policy: that learns.
        kept: the checkpoint of the rounds, which are not repeated.

    Raises:
        InvalidCheckpointError: what to continue from is unusable.
    """
    rounds, seed = config.imitation_rounds, config.seed
    student = Student(traffic.network, policy, traffic.settings | {"seed": seed})
    if kept.exists():
        student.resume(kept)
    first = student.round
    with make_pool(workers) as pool:
        for number in tqdm(range(first, rounds), initial=first, total=rounds, unit="round"):
            share = SHARE_DECAY**number
            weights = student.weights()
            running = [
                pool.submit(demonstrate, traffic.network, weights, task, share)
                for task in traffic.tasks(seed, number, EPISODES)
            ]
            for each in running:
                student.watch(each.result())
            rng = np.random.default_rng((seed, 4, number))
            passes = ceil(LEARNT / len(student.episodes))
            loss = [student.learn(rng) for _ in range(passes)][-1]
            student.round = number + 1
            student.save(kept)
            tqdm.write(f"{len(student.episodes)} episodes, cross-entropy {loss:.4f}")
    student.finish(FINAL_EPOCHS, np.random.default_rng((seed, 5)))


def demonstrate(network: Network, weights: Weights, task: Task, share: float) -> Demonstration:
    """Drive an episode; the planner makes a share of the decisions, the policy the others."""
    driver, ids, rng = Driver(weights, network), network.ids, np.random.default_rng(task.seed)
    seen: dict[str, list[Any]] = {"inputs": [], "targets": [], "weights": []}
    with Environment(task.scenario) as environment:
        observations = environment.reset(task.seed)
        planner = Planner(environment)
        while not environment.is_over:
            costs = planner.plan(observations)
            inputs, logits = driver.step(observations)
            is_free = [np.isfinite(costs[each]).all() for each in ids]
            seen["inputs"].append(inputs)
            seen["targets"].append(likelihoods(costs, network))
            seen["weights"].append(np.where(is_free, 1, FORCED_WEIGHT))
            actions = dict(zip(ids, map(int, logits.argmax(1)), strict=True))
            if rng.random() < share:
                actions = {each: int(cost.argmin()) for each, cost in costs.items()}
            observations = environment.step(actions)
    return {name: np.array(part, np.float32) for name, part in seen.items()}


def likelihoods(costs: Mapping[str, NDArray[np.float64]], network: Network) -> Floats:
    """Return (A, n_actions): an action is likelier the cheaper the plan that begins with it."""
    targets = np.zeros((network.n_agents, network.n_actions), np.float32)
    for row, name in enumerate(network.ids):
        likely = np.exp((costs[name].min() - costs[name]) / TEMPERATURE_S)
        targets[row, : len(likely)] = likely / likely.sum()
    return targets


class Student(Resumable):
    """The policy that learns, and what it was shown."""

    VALUES = "round", "episodes"
    PARTS = "policy", "optimizer"

    def __init__(
        self, network: Network, policy: RecurrentPolicy, settings: Mapping[str, Any]
    ) -> None:
        self.settings = settings
        self.round = 0
        self.episodes: list[dict[str, Tensor]] = []
        self.policy = policy
        self.optimizer = torch.optim.Adam(self.policy.parameters(), RATE)
        self._avail_actions = avail_actions_of(network)

    def weights(self) -> Weights:
        return {name: part.copy() for name, part in as_arrays(self.policy.state_dict()).items()}

    def watch(self, shown: Demonstration) -> None:
        """Add an episode to those that are learnt."""
        self.episodes.append({name: torch.from_numpy(part) for name, part in shown.items()})

    def finish(self, epochs: int, rng: np.random.Generator) -> None:
        """Learn with a step size that falls to zero."""
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, max(1, epochs))
        for _ in tqdm(range(epochs), unit="epoch"):
            loss = self.learn(rng)
            schedule.step()
            tqdm.write(f"cross-entropy {loss:.4f}")

    def learn(self, rng: np.random.Generator) -> float:
        """Pass once over all episodes in random batches; returns the mean cross-entropy."""
        losses = []
        order = rng.permutation(len(self.episodes))
        for begin in range(0, len(order), BATCH):
            batch = [self.episodes[each] for each in order[begin : begin + BATCH]]
            inputs, targets, weights = (
                torch.stack([each[part] for each in batch], dim=1)
                for part in ("inputs", "targets", "weights")
            )
            hidden = torch.zeros(len(batch), inputs.shape[2], HIDDEN_DIM)
            for at in range(0, len(inputs), CHUNK):
                chunk = slice(at, at + CHUNK)
                loss, hidden = self._step(inputs[chunk], targets[chunk], weights[chunk], hidden)
                losses.append(loss)
        return float(np.mean(losses))

    def _step(
        self, inputs: Tensor, targets: Tensor, weights: Tensor, hidden: Tensor
    ) -> tuple[float, Tensor]:
        following = torch.cat([inputs, inputs[-1:]])  # of which only the hidden state is used
        logits, states = unroll(self.policy, following, hidden, self._avail_actions)
        cross_entropy = -(targets * logits[:-1].log_softmax(-1)).sum(-1)
        loss = (weights * cross_entropy).sum() / weights.sum()
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        clip_grad_norm_(self.policy.parameters(), MAX_GRADIENT)
        self.optimizer.step()
        return float(loss.detach()), states[-1].detach()
