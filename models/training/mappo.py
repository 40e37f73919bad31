"""Train the policy with MAPPO: ``make train-policy``, or ``python -m models.training.mappo``.

Yu et al., "The Surprising Effectiveness of PPO in Cooperative Multi-Agent Games", 2022: one actor
shared by all agents, a central critic that sees the whole network and serves training only, value
normalisation, and PPO's clipped objective (Schulman et al., 2017) with advantages by GAE (Schulman
et al., 2016). The actor's GRU learns through chunks of time that begin with stored hidden states.
Each traffic is driven several times, and its repeats are each other's baseline.

A run lives in a folder: ``checkpoint.pt`` after every iteration, ``log.csv``, and ``best.th``, the
weights that did best on the validation hours. The same command goes on where a run was killed. The
same configuration gives the same curve, whatever the number of workers.
"""

from __future__ import annotations

import argparse
import ast
import csv
import inspect
import os
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from tqdm import tqdm

from models.junctions import N_AGENTS
from models.policy.form import HIDDEN_DIM, INPUT_DIM, InvalidPolicyFileError
from models.policy.network import RecurrentPolicy, mask_logits, read_state_dict
from models.simulation.environment import DECISION_S
from models.training.checkpoint import InvalidCheckpointError, read_checkpoint, write_atomically
from models.training.rollout import AVAIL_ACTIONS, Episode, RolloutWorkers, Task, Weights
from models.training.signals_env import STATE_DIM, Reward
from models.training.traffic_levels import (
    TEST_LEVELS,
    TRAINING_SEED,
    VALIDATION_SEEDS,
    draw_training_scenario,
)

LEARNER_THREADS = 2  # not the number of workers: sums in another order would bend the curve
RUNS = Path(__file__).parents[2] / "reports" / "policy"


@dataclass(frozen=True)
class Config:
    """Everything that the curve depends on."""

    seed: int = 0
    """draws initial weights, scenarios, actions and the order of minibatches"""
    iterations: int = 60
    """rollouts, each followed by some epochs of learning; the learning rate falls over them"""
    episodes: int = 24
    """simulations per iteration"""
    repeats: int = 4
    """of them with the same traffic; see compare_repeats"""
    duration_s: int = 3600
    """length of each, a multiple of the chunks' length in seconds"""
    warm_start: str = ""
    """policy file to start from, or files separated by commas: then the mean of their weights;
    without one, orthogonal initial weights"""
    critic_iterations: int = 2
    """first iterations in which only the critic learns, so that it does not mislead a good actor"""
    curriculum_iterations: int = 1
    """iterations until the heaviest traffic and breakdowns come as often as they ever will"""
    reward: Reward = "time_loss"
    """see SignalsEnv"""
    team_share: float = 0.4
    """weight of the other junctions' rewards; 1 would be one reward for the team"""
    gamma: float = 0.995
    """discount per decision; with 0.97, 3 minutes, it wasted green that heavy traffic then lacks"""
    gae_lambda: float = 0.95
    """between the critic's word (0) and what really came (1)"""
    chunk: int = 24
    """decisions per truncated back-propagation; two minutes, longer than most cycles"""
    epochs: int = 5
    """passes of the actor over each rollout"""
    critic_epochs: int = 15
    """passes of the critic: its errors are the noise that the actor learns from"""
    minibatches: int = 4
    """steps of the optimiser per epoch"""
    clip: float = 0.2
    """how far a probability's ratio may move per iteration before its gradient is cut"""
    target_kl: float = 0.02
    """an iteration's remaining epochs are dropped when the policy has moved further than this"""
    entropy_bonus: float = 0.002
    """keeps alternatives alive"""
    actor_rate: float = 1.2e-3
    """Adam's step size for the actor at its highest"""
    warmup_iterations: int = 5
    """iterations in which it rises: Adam's first steps are as long with noise as with a gradient"""
    critic_rate: float = 1e-3
    """Adam's initial step size for the critic"""
    max_gradient: float = 0.5
    """gradients are scaled down to this norm"""
    average_decay: float = 0.9
    """per iteration, of the mean of the actor's weights that is validated and kept: less noisy than
    the last ones (Polyak and Juditsky, 1992)"""
    validate_every: int = 10
    """iterations between runs of the greedy policy on the validation hours"""

    def __post_init__(self) -> None:
        if self.reward not in get_args(Reward):
            raise ValueError(f"reward {self.reward!r} is none of {', '.join(get_args(Reward))}")
        if self.repeats < 1 or self.episodes % self.repeats:
            raise ValueError(f"{self.episodes} episodes are not groups of {self.repeats} repeats")
        if self.duration_s % (self.chunk * DECISION_S):
            raise ValueError(
                f"{self.duration_s} s are not a multiple of chunks of {self.chunk * DECISION_S} s"
            )
        if not 0 <= self.average_decay < 1:
            raise ValueError(f"average_decay {self.average_decay} is not from 0 to below 1")

    @classmethod
    def explanations(cls) -> dict[str, str]:
        """By field, the text below it in this file."""
        parts = ast.parse(inspect.getsource(cls)).body[0]
        assert isinstance(parts, ast.ClassDef)
        return {
            field.target.id: " ".join(text.value.value.split())
            for field, text in pairwise(parts.body)
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
            if isinstance(text.value.value, str)
        }


class CentralCritic(nn.Module):
    """From the network's state (..., STATE_DIM) to one normalised value per agent (..., A)."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(STATE_DIM, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
        )
        self.values = nn.Linear(width, N_AGENTS)

    def forward(self, states: Tensor) -> Tensor:
        values: Tensor = self.values(self.layers(states))
        return values


class ValueScale:
    """Running mean and spread of the returns per agent, in which the critic's values are counted.

    Without it the critic would chase targets whose size changes as the policy learns.
    """

    decay = 0.95

    def __init__(self) -> None:
        self.moments = torch.zeros(2, N_AGENTS)  # of returns and of their squares
        self.weight = torch.zeros(1)

    def update(self, returns: Tensor) -> None:
        """Take in returns of shape (..., A)."""
        flat = returns.reshape(-1, N_AGENTS)
        moments = torch.stack([flat.mean(0), flat.square().mean(0)])
        self.moments = self.decay * self.moments + (1 - self.decay) * moments
        self.weight = self.decay * self.weight + (1 - self.decay)

    def _mean_and_spread(self) -> tuple[Tensor, Tensor]:
        if not self.weight:
            return torch.zeros(N_AGENTS), torch.ones(N_AGENTS)
        mean, square = self.moments / self.weight
        return mean, (square - mean.square()).clamp(min=1e-4).sqrt()

    def normalise(self, returns: Tensor) -> Tensor:
        mean, spread = self._mean_and_spread()
        return (returns - mean) / spread

    def restore(self, values: Tensor) -> Tensor:
        mean, spread = self._mean_and_spread()
        return values * spread + mean


def initialise(network: nn.Module, output: nn.Linear, output_gain: float) -> None:
    """Orthogonal weights and zero biases; a small output layer makes a policy nearly uniform."""
    for module in network.modules():
        if isinstance(module, nn.Linear):
            gain = output_gain if module is output else 2**0.5
            nn.init.orthogonal_(module.weight, gain)
            nn.init.zeros_(module.bias)
        elif isinstance(module, nn.GRUCell):
            nn.init.orthogonal_(module.weight_ih)
            nn.init.orthogonal_(module.weight_hh)
            nn.init.zeros_(module.bias_ih)
            nn.init.zeros_(module.bias_hh)


def unroll(actor: RecurrentPolicy, inputs: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """Run T steps of M sets of agents.

    Args:
        inputs: (T, M, A, INPUT_DIM).
        hidden: (M, A, HIDDEN_DIM) before the first step.

    Returns:
        Masked logits (T, M, A, N_ACTIONS) and the hidden states (T, M, A, HIDDEN_DIM) before each
        step.
    """
    n_sets = inputs.shape[1]
    rows = hidden.reshape(-1, HIDDEN_DIM)
    avail_actions = AVAIL_ACTIONS.repeat(n_sets, 1)
    logits, before = [], []
    for step in inputs.reshape(len(inputs), -1, INPUT_DIM):
        before.append(rows)
        output, rows = actor(step, rows)
        logits.append(mask_logits(output, avail_actions))
    shape = (len(inputs), n_sets, N_AGENTS, -1)
    return torch.stack(logits).reshape(shape), torch.stack(before).reshape(shape)


def pick(log_probabilities: Tensor, actions: Tensor) -> Tensor:
    """Those of the chosen actions: from (..., N_ACTIONS) and (...) to (...)."""
    return log_probabilities.gather(-1, actions.unsqueeze(-1)).squeeze(-1)


def estimate_advantages(rewards: Tensor, values: Tensor, gamma: float, gae_lambda: float) -> Tensor:
    """GAE over (T, ...) rewards and (T + 1, ...) values; the end is a cut, not a terminal state."""
    errors = rewards + gamma * values[1:] - values[:-1]
    advantages = torch.zeros_like(rewards)
    running = torch.zeros_like(rewards[0])
    for step in reversed(range(len(rewards))):
        running = errors[step] + gamma * gae_lambda * running
        advantages[step] = running
    return advantages


def by_traffic(part: Tensor, repeats: int) -> Tensor:
    """(T, E, A), the repeats of one traffic side by side, to (T, E / repeats, repeats, A)."""
    return part.reshape(len(part), -1, repeats, part.shape[-1])


def compare_repeats(advantages: Tensor, repeats: int) -> Tensor:
    """Judge each decision by what the other episodes with the same traffic had at that moment.

    The vehicles that come are the same in all of them, and none of them knows the others' actions:
    their mean takes away noise, four fifths of all there is, and nothing of the actions' merit.
    Mao et al., "Variance Reduction for Reinforcement Learning in Input-Driven Environments", 2019.
    """
    if repeats == 1:
        return advantages
    groups = by_traffic(advantages, repeats)
    others = (groups.sum(2, keepdim=True) - groups) / (repeats - 1)
    return (groups - others).reshape(advantages.shape)


def standardise(advantages: Tensor, free: Tensor, repeats: int) -> Tensor:
    """Mean 0 and spread 1 per traffic and agent, of free decisions: light traffic counts too."""
    groups, chosen = by_traffic(advantages, repeats), by_traffic(free, repeats)
    count = chosen.sum((0, 2), keepdim=True).clamp(min=2)
    mean = (groups * chosen).sum((0, 2), keepdim=True) / count
    squares = (groups - mean).square() * chosen
    spread = (squares.sum((0, 2), keepdim=True) / (count - 1)).sqrt()
    return ((groups - mean) / (spread + 1e-8)).reshape(advantages.shape)


@dataclass(frozen=True)
class Batch:
    """The chunks of all episodes: N chunks of C decisions of A agents.

    Attributes:
        inputs: (C, N, A, INPUT_DIM); states: (C, N, STATE_DIM).
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


def mean_weights(files: Sequence[str]) -> dict[str, Tensor]:
    """Of policies that descend from the same one (Wortsman et al., "Model soups", 2022).

    Raises:
        InvalidPolicyFileError: a file cannot be used.
    """
    policies = [read_state_dict(file) for file in files]
    return {name: torch.stack([each[name] for each in policies]).mean(0) for name in policies[0]}


def as_arrays(weights: Mapping[str, Tensor]) -> Weights:
    return {name: tensor.numpy() for name, tensor in weights.items()}


class Trainer:
    """The networks, their optimisers, and one iteration's learning."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.iteration = 0
        self.best_score = float("inf")
        torch.manual_seed(config.seed)
        self.actor, self.critic = RecurrentPolicy(), CentralCritic()
        initialise(self.actor, self.actor.fc2, output_gain=0.01)
        initialise(self.critic, self.critic.values, output_gain=1.0)
        if config.warm_start:
            self.actor.load_state_dict(mean_weights(config.warm_start.split(",")))
        self.average = AveragedModel(
            self.actor,
            multi_avg_fn=get_ema_multi_avg_fn(config.average_decay),  # type: ignore[no-untyped-call]
        )
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), eps=1e-5)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), eps=1e-5)
        self.value_scale = ValueScale()

    def weights(self) -> Weights:
        """Of the actor, which drives the rollouts."""
        return as_arrays(self.actor.state_dict())

    def average_weights(self) -> OrderedDict[str, Tensor]:
        """Of the mean of the last actors, which is validated and kept."""
        return OrderedDict(self.average.module.state_dict())

    def tasks(self) -> list[Task]:
        """This iteration's episodes, the same on every call."""
        config = self.config
        n_traffics = config.episodes // config.repeats
        first = TRAINING_SEED + 1_000_000 * config.seed + self.iteration * n_traffics
        progress = self.iteration / config.curriculum_iterations
        rng = np.random.default_rng((config.seed, 1, self.iteration))
        traffics = [
            (draw_training_scenario(rng, progress, config.duration_s), first + number)
            for number in range(n_traffics)
        ]
        return [
            Task(*traffic, repeat, config.reward, config.team_share)
            for traffic in traffics
            for repeat in range(config.repeats)
        ]

    @torch.no_grad()
    def prepare(self, episodes: Sequence[Episode]) -> tuple[Batch, dict[str, float]]:
        """Values, advantages, and hidden states at the chunks' starts; updates the value scale."""
        inputs, actions, free, rewards, states = (
            torch.from_numpy(np.stack([getattr(each, part) for each in episodes], axis=1))
            for part in ("inputs", "actions", "free", "rewards", "states")
        )
        values = self.value_scale.restore(self.critic(states))
        advantages = estimate_advantages(rewards, values, self.config.gamma, self.config.gae_lambda)
        returns = advantages + values[:-1]
        self.value_scale.update(returns)
        advantages = compare_repeats(advantages, self.config.repeats)
        advantages = standardise(advantages, free, self.config.repeats)
        logits, hidden = unroll(
            self.actor, inputs, torch.zeros(len(episodes), N_AGENTS, HIDDEN_DIM)
        )
        batch = Batch(
            inputs=self._in_chunks(inputs),
            states=self._in_chunks(states[:-1]),
            hidden=self._in_chunks(hidden)[0],
            actions=self._in_chunks(actions),
            free=self._in_chunks(free),
            log_probabilities=self._in_chunks(pick(logits.log_softmax(-1), actions)),
            advantages=self._in_chunks(advantages),
            returns=self._in_chunks(returns),
        )
        unexplained = (returns - values[:-1]).var() / returns.var()
        return batch, {"reward": float(rewards.mean()), "explained": float(1 - unexplained)}

    def state_dict(self) -> dict[str, Any]:
        """All that changes while training; random numbers are drawn anew from each iteration's."""
        return {
            "config": asdict(self.config),
            "iteration": self.iteration,
            "best_score": self.best_score,
            "actor": self.actor.state_dict(),
            "average": self.average.state_dict(),
            "critic": self.critic.state_dict(),
            "actor_optimizer": self.actor_optimizer.state_dict(),
            "critic_optimizer": self.critic_optimizer.state_dict(),
            "value_moments": self.value_scale.moments,
            "value_weight": self.value_scale.weight,
        }

    def resume(self, path: Path) -> None:
        """Go on from a checkpoint.

        Raises:
            InvalidCheckpointError: it is damaged, of another form, or of another configuration.
        """
        loaded = read_checkpoint(path, self.state_dict())
        for name, value in asdict(self.config).items():
            if loaded["config"][name] != value:
                raise InvalidCheckpointError(
                    f"{path}: made with {name} {loaded['config'][name]!r}, not {value!r}; name"
                    " another folder for another run"
                )
        self.iteration, self.best_score = loaded["iteration"], loaded["best_score"]
        for part in ("actor", "average", "critic", "actor_optimizer", "critic_optimizer"):
            try:
                getattr(self, part).load_state_dict(loaded[part])
            except (ValueError, KeyError, RuntimeError) as error:
                raise InvalidCheckpointError(f"{path}: {part} does not fit: {error}") from error
        self.value_scale.moments = loaded["value_moments"]
        self.value_scale.weight = loaded["value_weight"]

    def _in_chunks(self, part: Tensor) -> Tensor:
        """(T, E, ...) to (C, E * T / C, ...); T is a multiple of C."""
        chunks = part.reshape(-1, self.config.chunk, *part.shape[1:])  # (T / C, C, E, ...)
        return chunks.transpose(0, 1).flatten(1, 2)

    def learn(self, batch: Batch) -> dict[str, float]:
        """Some epochs of PPO; returns means for the log."""
        config = self.config
        remaining = 1 - 0.9 * self.iteration / config.iterations
        acting = self.iteration + 1 - config.critic_iterations
        warm = min(1.0, max(0, acting) / max(1, config.warmup_iterations))
        self.actor_optimizer.param_groups[0]["lr"] = config.actor_rate * remaining * warm
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
        columns = dict.fromkeys(name for row in logged for name in row)
        means = {
            name: float(np.mean([row[name] for row in logged if name in row])) for name in columns
        }
        return means | {"actor_steps": sum("kl" in row for row in logged)}

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
        logits, _ = unroll(self.actor, part.inputs, part.hidden)
        every = logits.log_softmax(-1)
        difference = pick(every, part.actions) - part.log_probabilities
        ratio = difference.exp()
        low, high = 1 - self.config.clip, 1 + self.config.clip
        gain = torch.minimum(ratio * part.advantages, ratio.clamp(low, high) * part.advantages)
        weight = part.free / part.free.sum()  # a decision without a choice teaches nothing
        entropy = -(weight * (every.exp() * every).sum(-1)).sum()
        loss = -(weight * gain).sum() - self.config.entropy_bonus * entropy
        self._descend(loss, self.actor, self.actor_optimizer)
        with torch.no_grad():
            kl = (weight * (ratio - 1 - difference)).sum()
            clipped = (weight * ((ratio < low) | (ratio > high))).sum()
        return {
            "policy_loss": loss.item(),
            "entropy": entropy.item(),
            "kl": kl.item(),
            "clipped": clipped.item(),
        }

    def _descend(self, loss: Tensor, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), self.config.max_gradient)
        optimizer.step()


def train(config: Config, folder: Path, workers: int) -> None:
    """Run all iterations that the folder does not have yet.

    Raises:
        InvalidPolicyFileError, InvalidCheckpointError: what to start or go on from is unusable.
    """
    torch.set_num_threads(LEARNER_THREADS)
    trainer = Trainer(config)
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = folder / "checkpoint.pt"
    if checkpoint.exists():
        trainer.resume(checkpoint)
    log = Log(folder / "log.csv", trainer.iteration)
    pool = RolloutWorkers(workers)
    progress = tqdm(total=config.iterations, initial=trainer.iteration, unit="iteration")
    try:
        while trainer.iteration < config.iterations:
            started = time.monotonic()
            row: dict[str, float] = {"iteration": trainer.iteration}
            if trainer.iteration % config.validate_every == 0:
                row["validation"] = validate(trainer, pool, folder)
            episodes = pool.drive(trainer.weights(), trainer.tasks())
            batch, measured = trainer.prepare(episodes)
            row |= measured | mean_times(episodes) | trainer.learn(batch)
            row["wall_s"] = time.monotonic() - started
            trainer.average.update_parameters(trainer.actor)
            trainer.iteration += 1
            log.write(row)
            write_atomically(trainer.state_dict(), checkpoint)
            progress.update()
            progress.set_postfix({name: f"{row[name]:.3g}" for name in SHOWN if name in row})
        score = validate(trainer, pool, folder)
        log.write({"iteration": trainer.iteration, "validation": score})
    finally:
        progress.close()
        pool.close()
    tqdm.write(
        f"{folder / 'best.th'}: {trainer.best_score:.2f} s of time loss on the validation hours"
    )


def validate(trainer: Trainer, pool: RolloutWorkers, folder: Path) -> float:
    """Geometric mean of the greedy averaged policy's time loss in s on hours of every level.

    The weights with the lowest one so far are kept in ``best.th``.
    """
    weights = trainer.average_weights()
    runs = [(make(seed), seed) for make in TEST_LEVELS.values() for seed in VALIDATION_SEEDS]
    runs = [(replace(run, duration_s=trainer.config.duration_s), seed) for run, seed in runs]
    losses = [metrics.time_loss_s for metrics in pool.test(as_arrays(weights), runs)]
    score = float(np.exp(np.mean(np.log(losses))))
    if score < trainer.best_score:
        trainer.best_score = score
        write_atomically(weights, folder / "best.th")
    return score


def mean_times(episodes: Sequence[Episode]) -> dict[str, float]:
    """Of the sampling policy on this iteration's drawn traffic, in seconds per vehicle."""
    return {
        name: float(np.mean([getattr(episode.metrics, name) for episode in episodes]))
        for name in ("waiting_s", "time_loss_s")
    }


SHOWN = ("reward", "waiting_s", "time_loss_s", "validation", "kl")
COLUMNS = (
    *("iteration", "reward", "waiting_s", "time_loss_s", "validation", "explained", "value_loss"),
    *("policy_loss", "entropy", "kl", "clipped", "actor_steps", "wall_s"),
)


class Log:
    """A CSV file with a row per iteration; rows that no checkpoint stands behind are dropped."""

    def __init__(self, path: Path, iteration: int) -> None:
        self._path = path
        rows = []
        if path.exists():
            with path.open(newline="") as file:
                rows = [row for row in csv.DictReader(file) if int(row["iteration"]) < iteration]
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)

    def write(self, row: Mapping[str, float]) -> None:
        with self._path.open("a", newline="") as file:
            csv.DictWriter(file, COLUMNS).writerow(
                {name: f"{value:.6g}" for name, value in row.items()}
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=RUNS / "mappo", help="of the run")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    explanations = Config.explanations()
    for field in fields(Config):
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=type(field.default),
            default=field.default,
            help=explanations[field.name],
        )
    arguments = vars(parser.parse_args())
    folder, workers = arguments.pop("folder"), arguments.pop("workers")
    try:
        config = Config(**arguments)
    except ValueError as error:
        parser.error(str(error))
    try:
        train(config, folder, workers)
    except (InvalidPolicyFileError, InvalidCheckpointError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
