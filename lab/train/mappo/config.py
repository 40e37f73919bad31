"""The hyperparameters of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, get_args

from lab.train.signals import Reward

AT_LEAST_1 = ("episodes", "repeats", "chunk", "minibatches", "validate_every")


@dataclass(frozen=True)
class Config:
    """Everything that the curve depends on, beside the traffic and the start.

    The defaults are for one scenario with some minutes to spare; ``make train-policy`` has those of
    the shipped policy.
    """

    seed: Annotated[
        int, "draws initial weights, scenarios, actions and the order of minibatches"
    ] = 0
    iterations: Annotated[
        int, "rollouts, each followed by some epochs of learning; the learning rate falls over them"
    ] = 24
    episodes: Annotated[int, "simulations per iteration"] = 8
    repeats: Annotated[int, "of them with the same traffic; see compare_repeats"] = 8
    temperature: Annotated[
        float,
        "divides the start's logits: above 1 the actor tries more than its likeliest actions, "
        "which stay what they are",
    ] = 1.0
    critic_iterations: Annotated[
        int,
        "first iterations in which only the critic learns, so that it does not mislead a good "
        "actor",
    ] = 1
    reward: Annotated[Reward, "time_loss or waiting_change"] = "time_loss"
    team_share: Annotated[
        float, "weight of the other junctions' rewards; 1 would be one reward for the team"
    ] = 0.4
    pedestrian_weight: Annotated[
        float,
        "delayed vehicles that a waiting pedestrian counts as; and as many more per ten seconds of "
        "waiting",
    ] = 1.0
    standing_weight: Annotated[
        float,
        "with time_loss, further seconds that each second of standing counts as, for less waiting",
    ] = 0.0
    gamma: Annotated[
        float,
        "discount per decision; of the shipped policy 0.995: with 3 minutes of foresight it wasted "
        "green that heavy traffic then lacks",
    ] = 0.97
    gae_lambda: Annotated[float, "between the critic's estimate (0) and what really came (1)"] = (
        0.95
    )
    chunk: Annotated[
        int, "decisions per truncated back-propagation; two minutes, longer than most cycles"
    ] = 24
    epochs: Annotated[int, "passes of the actor over each rollout"] = 5
    critic_epochs: Annotated[
        int, "passes of the critic: its errors are the noise that the actor learns from"
    ] = 15
    minibatches: Annotated[int, "steps of the optimiser per epoch"] = 4
    clip: Annotated[
        float, "how far a probability's ratio may move per iteration before its gradient is cut"
    ] = 0.2
    target_kl: Annotated[
        float,
        "an iteration's remaining epochs are dropped when the policy has moved further than this",
    ] = 0.02
    entropy_bonus: Annotated[float, "keeps alternatives alive"] = 0.002
    actor_rate: Annotated[float, "Adam's step size for the actor at its highest"] = 5e-4
    warmup_iterations: Annotated[
        int,
        "iterations in which it rises: Adam's first steps are as long with noise as with a "
        "gradient",
    ] = 5
    rate_factor: Annotated[
        float,
        "by which the actor's step size is divided after an iteration that moved the policy twice "
        "as far as target_kl, and multiplied again after one that moved it half as far (as in "
        "Rudin et al., 2022); 1 leaves it as it is",
    ] = 1.5
    critic_rate: Annotated[float, "Adam's initial step size for the critic"] = 1e-3
    max_gradient: Annotated[float, "gradients are scaled down to this norm"] = 0.5
    average_decay: Annotated[
        float,
        "per iteration, of the mean of the actor's weights that is validated and kept: less noisy "
        "than the last ones (Polyak and Juditsky, 1992), but behind them in a short run",
    ] = 0.0
    validate_every: Annotated[
        int, "iterations between runs of the greedy policy on the validation's episodes"
    ] = 4

    def __post_init__(self) -> None:
        if self.iterations < 0:
            raise ValueError(f"iterations {self.iterations} is negative")
        for name in AT_LEAST_1:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} {getattr(self, name)} is less than 1")
        if self.reward not in get_args(Reward):
            raise ValueError(f"reward {self.reward!r} is not one of {', '.join(get_args(Reward))}")
        if self.episodes % self.repeats:
            raise ValueError(f"{self.episodes} episodes are not groups of {self.repeats} repeats")
        if not 0 <= self.pedestrian_weight < float("inf"):
            raise ValueError(f"pedestrian_weight {self.pedestrian_weight} is not 0 or more")
        if not 0 <= self.standing_weight < float("inf"):
            raise ValueError(f"standing_weight {self.standing_weight} is not 0 or more")
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature {self.temperature} is not above 0 and finite")
        if self.rate_factor < 1:
            raise ValueError(f"rate_factor {self.rate_factor} is less than 1")
        if not 0 <= self.average_decay < 1:
            raise ValueError(f"average_decay {self.average_decay} is not from 0 to below 1")
