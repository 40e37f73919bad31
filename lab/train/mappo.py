"""MAPPO: the trainer of all policies.

Yu et al., "The Surprising Effectiveness of PPO in Cooperative Multi-Agent Games", 2022: one actor
shared by all agents, a central critic that sees the whole network and serves training only, value
normalisation, and PPO's clipped objective (Schulman et al., 2017) with advantages by GAE (Schulman
et al., 2016). The actor's GRU learns through chunks of time that begin with stored hidden states.
All episodes of an iteration have the same traffic, and are each other's baseline.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from lab.sim.metrics import Metrics
from lab.train.checkpoint import Resumable
from lab.train.policy_network import (
    Weights,
    as_arrays,
    avail_actions_of,
    initialise,
    new_policy,
    read_policy,
    unroll,
)
from lab.train.rewards import state_dim
from lab.train.traffic import Task, Traffic
from models.policy.form import HIDDEN_DIM


@dataclass(frozen=True)
class Config:
    """Everything that the curve depends on, beside the traffic and the start.

    The annotated ones are options of the command line. The defaults are for one scenario with some
    minutes to spare.
    """

    seed: Annotated[
        int, "draws initial weights, scenarios, actions and the order of minibatches"
    ] = 0
    imitation_rounds: Annotated[
        int, "of 8 simulated hours, in which a planner is imitated before MAPPO begins"
    ] = 8
    iterations: Annotated[
        int,
        "of MAPPO: rollouts, each followed by some epochs of learning; the learning rate falls over"
        " them",
    ] = 10
    episodes: Annotated[
        int, "simulations per iteration, with the same traffic: they are each other's baseline"
    ] = 8
    team_share: Annotated[
        float, "weight of the other junctions' rewards; 1 would be one reward for the team"
    ] = 0.4
    pedestrian_weight: Annotated[
        float,
        "delayed vehicles that a waiting pedestrian counts as; and as many more per ten seconds of "
        "waiting",
    ] = 1.0
    gamma: Annotated[
        float,
        "discount per decision; of the shipped policy 0.995: with 3 minutes of foresight it wasted "
        "green that heavy traffic then lacks",
    ] = 0.97
    actor_rate: Annotated[float, "Adam's step size for the actor at its highest"] = 5e-4
    validate_every: Annotated[
        int, "iterations between runs of the greedy policy on the validation's episodes"
    ] = 4

    # the first iterations, in which a critic that knows nothing must not mislead a good actor
    critic_iterations: int = 1
    gae_lambda: float = 0.95  # between the critic's estimate (0) and what really came (1)
    chunk: int = 24  # decisions per truncated back-propagation; longer than most cycles
    epochs: int = 5  # passes of the actor over each rollout
    critic_epochs: int = 15  # its errors are the noise that the actor learns from
    minibatches: int = 4  # steps of the optimiser per epoch
    clip: float = 0.2  # how far a probability's ratio may move before its gradient is cut
    target_kl: float = 0.02  # how far the policy moves before an iteration's epochs are dropped
    entropy_bonus: float = 0.002  # keeps alternatives alive
    warmup_iterations: int = 5  # Adam's first steps are as long with noise as with a gradient
    # divides the actor's step size after an iteration that moved the policy twice as far as
    # target_kl; after one that moved it half as far, multiplies it again (Rudin et al., 2022)
    rate_factor: float = 1.5
    critic_rate: float = 1e-3  # Adam's initial step size for the critic
    max_gradient: float = 0.5  # gradients are scaled down to this norm

    def __post_init__(self) -> None:
        for name in ("imitation_rounds", "iterations"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} {getattr(self, name)} is negative")
        if not self.imitation_rounds + self.iterations:
            raise ValueError("with no round of imitation and no iteration, nothing is trained")
        for name in ("episodes", "validate_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} {getattr(self, name)} is less than 1")
        if not 0 <= self.pedestrian_weight < float("inf"):
            raise ValueError(f"pedestrian_weight {self.pedestrian_weight} is not 0 or more")


def check_length(config: Config, traffic: Traffic) -> None:
    """Raise ValueError where an episode is shorter than the chunks that MAPPO learns from."""
    n_decisions = traffic.example.n_decisions
    if config.iterations and config.chunk > n_decisions:
        raise ValueError(
            f"An episode has {n_decisions} decisions, and MAPPO learns from {config.chunk} in a"
            " row. Simulate a longer time, or say --iterations 0."
        )


class CentralCritic(nn.Module):
    """From the network's state (..., state_dim) to one normalised value per agent (..., A)."""

    def __init__(self, state_dim: int, n_agents: int, width: int = 256) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(state_dim, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
        )
        self.values = nn.Linear(width, n_agents)

    def forward(self, states: Tensor) -> Tensor:
        values: Tensor = self.values(self.layers(states))
        return values


def pick(log_probabilities: Tensor, actions: Tensor) -> Tensor:
    """Those of the chosen actions: from (..., n_actions) and (...) to (...)."""
    return log_probabilities.gather(-1, actions.unsqueeze(-1)).squeeze(-1)


@dataclass(frozen=True)
class Batch:
    """The chunks of all episodes: N chunks of C decisions of A agents.

    Attributes:
        inputs: (C, N, A, input_dim); states: (C, N, state_dim).
        hidden: (N, A, HIDDEN_DIM) as the actor left it at the start of each chunk.
        actions, free, log_probabilities, advantages, returns: (C, N, A).
    """

    inputs: Tensor
    states: Tensor
    hidden: Tensor
    actions: Tensor
    free: Tensor
    log_probabilities: Tensor
    advantages: Tensor
    returns: Tensor

    def take(self, chunks: Tensor) -> Batch:
        parts = {name: part[:, chunks] for name, part in vars(self).items() if name != "hidden"}
        return Batch(hidden=self.hidden[chunks], **parts)


def in_chunks(part: Tensor, length: int) -> Tensor:
    """(T, E, ...) to (C, E * (T // C), ...); decisions after the last whole chunk are left out."""
    part = part[: len(part) // length * length]
    chunks = part.reshape(-1, length, *part.shape[1:])  # (T / C, C, E, ...)
    return chunks.transpose(0, 1).flatten(1, 2)


def estimate_advantages(rewards: Tensor, values: Tensor, gamma: float, gae_lambda: float) -> Tensor:
    """GAE over (T, ...) rewards and (T + 1, ...) values; the end is a cut, not a terminal state."""
    errors = rewards + gamma * values[1:] - values[:-1]
    advantages = torch.zeros_like(rewards)
    running = torch.zeros_like(rewards[0])
    for step in reversed(range(len(rewards))):
        running = errors[step] + gamma * gae_lambda * running
        advantages[step] = running
    return advantages


def compare(advantages: Tensor) -> Tensor:
    """Judge each decision (T, E, A) by what the other episodes had at that moment.

    The vehicles that arrive are the same in all of them, and none of them knows the others'
    actions: their mean takes away noise, four fifths of all there is, and nothing of the actions'
    merit. Mao et al., "Variance Reduction for Reinforcement Learning in Input-Driven
    Environments", 2019.
    """
    n_others = max(1, advantages.shape[1] - 1)
    return advantages - (advantages.sum(1, keepdim=True) - advantages) / n_others


def standardise(advantages: Tensor, free: Tensor) -> Tensor:
    """Mean 0 and spread 1 per agent, of the free decisions (T, E, A)."""
    count = free.sum((0, 1)).clamp(min=2)
    mean = (advantages * free).sum((0, 1)) / count
    squares = (advantages - mean).square() * free
    spread = (squares.sum((0, 1)) / (count - 1)).sqrt()
    return (advantages - mean) / (spread + 1e-8)


def clipped_loss(
    logits: Tensor, part: Batch, clip: float, entropy_bonus: float
) -> tuple[Tensor, dict[str, float]]:
    """Compare the actor with the one that drove the rollout.

    Args:
        logits: (C, N, A, n_actions) of the present actor, masked.
        part: what the rollout's actor did, and what came of it.

    Returns:
        The loss to descend, and what to log of it.
    """
    every = logits.log_softmax(-1)
    difference = pick(every, part.actions) - part.log_probabilities
    ratio = difference.exp()
    low, high = 1 - clip, 1 + clip
    gain = torch.minimum(ratio * part.advantages, ratio.clamp(low, high) * part.advantages)
    weight = part.free / part.free.sum()  # a decision without a choice teaches nothing
    entropy = -(weight * (every.exp() * every).sum(-1)).sum()
    loss = -(weight * gain).sum() - entropy_bonus * entropy
    with torch.no_grad():
        kl = (weight * (ratio - 1 - difference)).sum()
        clipped = (weight * ((ratio < low) | (ratio > high))).sum()
    return loss, {
        "policy_loss": loss.item(),
        "entropy": entropy.item(),
        "kl": kl.item(),
        "clipped": clipped.item(),
    }


class ValueScale(nn.Module):
    """Running mean and spread of the returns per agent, in which the critic's values are counted.

    Without it the critic would chase targets whose size changes as the policy learns.
    """

    decay = 0.95

    def __init__(self, n_agents: int) -> None:
        super().__init__()
        self.n_agents = n_agents
        self.moments: Tensor
        self.weight: Tensor
        self.register_buffer("moments", torch.zeros(2, n_agents))  # of returns and their squares
        self.register_buffer("weight", torch.zeros(1))

    def update(self, returns: Tensor) -> None:
        """Take in returns of shape (..., A)."""
        flat = returns.reshape(-1, self.n_agents)
        moments = torch.stack([flat.mean(0), flat.square().mean(0)])
        self.moments = self.decay * self.moments + (1 - self.decay) * moments
        self.weight = self.decay * self.weight + (1 - self.decay)

    def _mean_and_spread(self) -> tuple[Tensor, Tensor]:
        if not self.weight:
            return torch.zeros(self.n_agents), torch.ones(self.n_agents)
        mean, square = self.moments / self.weight
        return mean, (square - mean.square()).clamp(min=1e-4).sqrt()

    def normalise(self, returns: Tensor) -> Tensor:
        mean, spread = self._mean_and_spread()
        return (returns - mean) / spread

    def restore(self, values: Tensor) -> Tensor:
        mean, spread = self._mean_and_spread()
        return values * spread + mean


class Episode(NamedTuple):
    """T decisions of all A agents, and how they went.

    Attributes:
        seen: ``inputs`` (T, A, input_dim), what the policy saw; ``states`` (T + 1, state_dim), what
            the critic sees, the end included; ``actions`` (T, A), sampled; ``free`` (T, A), False
            where yellow, minimum green or maximum red left no choice; ``rewards`` (T, A).
    """

    seen: Mapping[str, NDArray[Any]]
    metrics: Metrics


class Trainer(Resumable):
    """The networks, their optimisers, and one iteration's learning.

    Random numbers are drawn anew from each iteration's.
    """

    VALUES = "iteration", "best_score", "actor_scale"
    PARTS = "actor", "critic", "actor_optimizer", "critic_optimizer", "value_scale"

    def __init__(self, config: Config, traffic: Traffic, start: Path | None = None) -> None:
        self.config, self.traffic = config, traffic
        self.settings = asdict(config) | traffic.settings
        network = traffic.network
        self.iteration = 0
        self.best_score = float("inf")
        torch.manual_seed(config.seed)
        self.actor = read_policy(start, network) if start else new_policy(network)
        self.critic = CentralCritic(state_dim(traffic.example), network.n_agents)
        self.avail_actions = avail_actions_of(network)
        initialise(self.critic, self.critic.values, output_gain=1.0)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), eps=1e-5)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), eps=1e-5)
        self.value_scale = ValueScale(network.n_agents)
        self.actor_scale = 1.0  # of the actor's step size, at most 1

    def weights(self) -> Weights:
        """Of the actor, which drives the rollouts."""
        return as_arrays(self.actor.state_dict())

    def tasks(self) -> list[Task]:
        """Return this iteration's episodes, the same on every call."""
        (task,) = self.traffic.tasks(self.config.seed, self.iteration, 1)
        return [task._replace(repeat=number) for number in range(self.config.episodes)]

    @torch.no_grad()
    def prepare(self, episodes: Sequence[Episode]) -> tuple[Batch, dict[str, float]]:
        """Values, advantages, and hidden states at the chunks' starts; updates the value scale."""
        inputs, actions, free, rewards, states = (
            torch.from_numpy(np.stack([each.seen[part] for each in episodes], axis=1))
            for part in ("inputs", "actions", "free", "rewards", "states")
        )
        values = self.value_scale.restore(self.critic(states))
        advantages = estimate_advantages(rewards, values, self.config.gamma, self.config.gae_lambda)
        returns = advantages + values[:-1]
        self.value_scale.update(returns)
        advantages = standardise(compare(advantages), free)
        logits, hidden = unroll(
            self.actor,
            inputs,
            torch.zeros(len(episodes), inputs.shape[2], HIDDEN_DIM),
            self.avail_actions,
        )
        parts = {
            "inputs": inputs,
            "states": states[:-1],
            "hidden": hidden,
            "actions": actions,
            "free": free,
            "log_probabilities": pick(logits.log_softmax(-1), actions),
            "advantages": advantages,
            "returns": returns,
        }
        chunks = {name: in_chunks(part, self.config.chunk) for name, part in parts.items()}
        batch = Batch(**chunks | {"hidden": chunks["hidden"][0]})
        unexplained = (returns - values[:-1]).var() / returns.var()
        return batch, {"reward": float(rewards.mean()), "explained": float(1 - unexplained)}

    def learn(self, batch: Batch) -> dict[str, float]:
        """Run some epochs of PPO; return means for the log."""
        config = self.config
        remaining = 1 - 0.9 * self.iteration / config.iterations
        acting = self.iteration + 1 - config.critic_iterations
        warm = min(1.0, max(0, acting) / max(1, config.warmup_iterations))
        self.actor_optimizer.param_groups[0]["lr"] = (
            config.actor_rate * remaining * warm * self.actor_scale
        )
        self.critic_optimizer.param_groups[0]["lr"] = config.critic_rate * remaining
        actor_epochs = config.epochs if acting > 0 else 0
        logged: list[dict[str, float]] = []
        moved = False
        for epoch, chunks in self._minibatches(batch.hidden.shape[0]):
            part = batch.take(chunks)
            row = {"value_loss": self._step_critic(part)}
            if epoch < actor_epochs and not moved:
                row |= self._step_actor(part)
                moved = row["kl"] > 1.5 * config.target_kl
            logged.append(row)
        self._adapt_rate(max((row["kl"] for row in logged if "kl" in row), default=None))
        columns = dict.fromkeys(name for row in logged for name in row)
        means = {
            name: float(np.mean([row[name] for row in logged if name in row])) for name in columns
        }
        return means | {"actor_steps": sum("kl" in row for row in logged)}

    def _adapt_rate(self, moved: float | None) -> None:
        """Shorten or lengthen the actor's next steps by how far the policy has moved."""
        target, factor = self.config.target_kl, self.config.rate_factor
        if moved is not None and moved > 2 * target:
            self.actor_scale /= factor
        elif moved is not None and moved < target / 2:
            self.actor_scale = min(1.0, self.actor_scale * factor)

    def _minibatches(self, n_chunks: int) -> Iterator[tuple[int, Tensor]]:
        rng = np.random.default_rng((self.config.seed, 2, self.iteration))
        for epoch in range(max(self.config.epochs, self.config.critic_epochs)):
            order = torch.from_numpy(rng.permutation(n_chunks))
            for chunks in order.chunk(self.config.minibatches):
                yield epoch, chunks

    def _step_critic(self, part: Batch) -> float:
        targets = self.value_scale.normalise(part.returns)
        loss = functional.huber_loss(self.critic(part.states), targets)
        self._descend(loss, self.critic, self.critic_optimizer)
        return loss.item()

    def _step_actor(self, part: Batch) -> dict[str, float]:
        logits, _ = unroll(self.actor, part.inputs, part.hidden, self.avail_actions)
        loss, measured = clipped_loss(logits, part, self.config.clip, self.config.entropy_bonus)
        self._descend(loss, self.actor, self.actor_optimizer)
        return measured

    def _descend(self, loss: Tensor, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), self.config.max_gradient)
        optimizer.step()
