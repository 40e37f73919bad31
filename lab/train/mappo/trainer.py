"""What learns: the networks, their optimisers, and one iteration's learning."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from lab.train.checkpoint import InvalidCheckpointError, read_checkpoint
from lab.train.mappo.config import Config
from lab.train.mappo.networks import (
    CentralCritic,
    Weights,
    as_arrays,
    avail_actions_of,
    initialise,
    pick,
    soften,
    unroll,
)
from lab.train.mappo.ppo import (
    Batch,
    ValueScale,
    clipped_loss,
    compare_repeats,
    estimate_advantages,
    in_chunks,
    standardise,
)
from lab.train.mappo.rollout import Episode
from lab.train.mappo.traffic import Task, Traffic
from lab.train.policy_network import RecurrentPolicy, read_state_dict
from lab.train.signals import state_dim
from models.policy.form import HIDDEN_DIM, PolicyForm


class Trainer:
    """The networks, their optimisers, and one iteration's learning.

    Raises:
        ValueError: episodes are shorter than a chunk.
    """

    def __init__(self, config: Config, traffic: Traffic, start: Path | None = None) -> None:
        n_decisions = traffic.example.n_decisions
        if config.chunk > n_decisions:
            raise ValueError(
                f"An episode has {n_decisions} decisions, fewer than the chunk of {config.chunk}."
                " Simulate a longer time, or set a smaller --chunk."
            )
        self.config, self.traffic = config, traffic
        network = traffic.network
        self.iteration = 0
        self.best_score = float("inf")
        torch.manual_seed(config.seed)
        self.actor = RecurrentPolicy(PolicyForm.of(network))
        self.critic = CentralCritic(state_dim(traffic.example), network.n_agents)
        self.avail_actions = avail_actions_of(network)
        initialise(self.actor, self.actor.fc2, output_gain=0.01)
        initialise(self.critic, self.critic.values, output_gain=1.0)
        if start is not None:
            self.actor.load_state_dict(read_state_dict(start, network))
        soften(self.actor, config.temperature)
        self.average = AveragedModel(
            self.actor,
            multi_avg_fn=get_ema_multi_avg_fn(config.average_decay),  # type: ignore[no-untyped-call]
        )
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), eps=1e-5)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), eps=1e-5)
        self.value_scale = ValueScale(network.n_agents)
        self.actor_scale = 1.0  # of the actor's step size, at most 1

    def weights(self) -> Weights:
        """Of the actor, which drives the rollouts."""
        return as_arrays(self.actor.state_dict())

    def average_weights(self) -> OrderedDict[str, Tensor]:
        """Of the mean of the last actors, which is validated and kept."""
        return OrderedDict(self.average.module.state_dict())

    def tasks(self) -> list[Task]:
        """Return this iteration's episodes, the same on every call."""
        return self.traffic.tasks(self.config, self.iteration)

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
            self.actor,
            inputs,
            torch.zeros(len(episodes), inputs.shape[2], HIDDEN_DIM),
            self.avail_actions,
        )
        length = self.config.chunk
        batch = Batch(
            inputs=in_chunks(inputs, length),
            states=in_chunks(states[:-1], length),
            hidden=in_chunks(hidden, length)[0],
            actions=in_chunks(actions, length),
            free=in_chunks(free, length),
            log_probabilities=in_chunks(pick(logits.log_softmax(-1), actions), length),
            advantages=in_chunks(advantages, length),
            returns=in_chunks(returns, length),
        )
        unexplained = (returns - values[:-1]).var() / returns.var()
        return batch, {"reward": float(rewards.mean()), "explained": float(1 - unexplained)}

    def state_dict(self) -> dict[str, Any]:
        """All that changes while training; random numbers are drawn anew from each iteration's."""
        return {
            "config": self._settings(),
            "iteration": self.iteration,
            "best_score": self.best_score,
            "actor": self.actor.state_dict(),
            "average": self.average.state_dict(),
            "critic": self.critic.state_dict(),
            "actor_optimizer": self.actor_optimizer.state_dict(),
            "critic_optimizer": self.critic_optimizer.state_dict(),
            "value_moments": self.value_scale.moments,
            "value_weight": self.value_scale.weight,
            "actor_scale": self.actor_scale,
        }

    def _settings(self) -> dict[str, Any]:
        return asdict(self.config) | self.traffic.settings

    def resume(self, path: Path) -> None:
        """Continue from a checkpoint; one of an older version may lack settings.

        Raises:
            InvalidCheckpointError: it is damaged, of another form, or of another configuration.
        """
        loaded = read_checkpoint(path, self.state_dict() | {"config": {}})
        settings = self._settings()
        for name, value in loaded["config"].items():
            if value != settings.get(name):
                raise InvalidCheckpointError(
                    f"{path}: made with {name} {value!r}, not {settings.get(name)!r}; name"
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
        self.actor_scale = loaded["actor_scale"]

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
