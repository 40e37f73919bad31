"""A whole run of MAPPO in its folder: episodes, learning, validation, checkpoints.

The folder has ``checkpoint.pt`` after every iteration, ``log.csv``, and ``best.th``, the weights
that did best on validation. The same command continues where a run was killed. The same
configuration gives the same curve, whatever the number of workers. Worker processes drive the
episodes, as SUMO keeps one simulation in each.
"""

from __future__ import annotations

import csv
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from lab.evaluate.statistics import estimate
from lab.processes import make_pool
from lab.sim import controllers
from lab.sim.environment import Environment
from lab.sim.metrics import Metrics
from lab.tables import write_csv
from lab.train.mappo import Config, Episode, Trainer
from lab.train.policy_network import Driver, RecurrentPolicy, Weights, as_arrays, write_policy
from lab.train.rewards import Rewards
from lab.train.traffic import FURTHER_SEED, Task, Traffic
from models.policy.file import read_weights
from models.policy.step import PolicyStep
from models.policy.training_record import TrainingRecord, write_record

COLUMNS = (
    *("iteration", "reward", "waiting_s", "time_loss_s", "validation", "explained", "value_loss"),
    *("policy_loss", "entropy", "kl", "clipped", "actor_steps", "wall_s"),
)
Row = dict[str, str]
SHOWN = ("reward", "waiting_s", "time_loss_s", "validation", "kl")


class Trained(NamedTuple):
    """What a run has come to.

    Attributes:
        score: best geometric mean of the delay in s on validation, by which weights are chosen.
        before_s: delays of what MAPPO began with, on further seeds; none without iterations.
        after_s: delays of the best weights, on the same seeds.
    """

    score: float
    before_s: Sequence[float]
    after_s: Sequence[float]

    def __str__(self) -> str:
        lost = (
            f"On {len(self.after_s)} runs that have not chosen it, vehicles lose"
            f" {np.mean(self.after_s):.1f} s under it"
        )
        if not self.before_s:
            return f"{lost}."
        less = estimate(np.subtract(self.before_s, self.after_s))
        judged = "is not more than chance explains"
        if isnan(less.half_width):
            judged = "may be chance: that takes several --validation-seeds"
        elif abs(less.mean) > less.half_width:
            judged = "is more than chance explains"
        return (
            f"{lost}, and {np.mean(self.before_s):.1f} s under start.th. The difference, {less} s,"
            f" {judged}."
        )


def train(config: Config, folder: Path, workers: int, traffic: Traffic, start: Path) -> Trained:
    """Run all iterations that the folder does not have yet, and compare start and end.

    ``best.th`` is what validated best, with a record of its training.

    Args:
        start: the policy to begin with.

    Raises:
        InvalidPolicyFileError, InvalidCheckpointError: what to start or continue from is unusable.
    """
    trainer = Trainer(config, traffic, start)
    checkpoint = folder / "checkpoint.pt"
    if checkpoint.exists():
        trainer.resume(checkpoint)
    record = TrainingRecord(traffic.settings["safety"], traffic.settings["counts"])
    write_record(folder / "best.th", record)
    rows = read_log(folder / "log.csv", trainer.iteration)
    progress = tqdm(total=config.iterations, initial=trainer.iteration, unit="iteration")
    with make_pool(workers) as pool, progress:
        while trainer.iteration < config.iterations:
            started = time.monotonic()
            row: dict[str, float] = {"iteration": trainer.iteration}
            if trainer.iteration % config.validate_every == 0:
                row["validation"] = validate(trainer, pool, folder)
            drives = partial(drive_episode, traffic, config, trainer.weights())
            episodes = list(pool.map(drives, trainer.tasks()))
            batch, measured = trainer.prepare(episodes)
            row |= measured | mean_times(episodes) | trainer.learn(batch)
            row["wall_s"] = time.monotonic() - started
            trainer.iteration += 1
            write_log(folder / "log.csv", rows, row)
            trainer.save(checkpoint)
            progress.update()
            progress.set_postfix({name: f"{row[name]:.3g}" for name in SHOWN if name in row})
        score = validate(trainer, pool, folder)
        write_log(folder / "log.csv", rows, {"iteration": trainer.iteration, "validation": score})
        tasks = traffic.validation(FURTHER_SEED)
        best, first = (read_weights(each, traffic.network) for each in (folder / "best.th", start))
        after_s = delays_s(config, traffic, pool, best, tasks)
        before_s = delays_s(config, traffic, pool, first, tasks) if config.iterations else []
    return Trained(trainer.best_score, before_s, after_s)


def read_log(path: Path, iteration: int) -> list[Row]:
    """Return the rows before an iteration; those after the last checkpoint are made again."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [row for row in csv.DictReader(file) if int(row["iteration"]) < iteration]


def write_log(path: Path, rows: list[Row], row: Mapping[str, float]) -> None:
    """Add a row, and write all of them."""
    rows.append({name: f"{value:.6g}" for name, value in row.items()})
    write_csv(path, COLUMNS, [[each.get(name, "") for name in COLUMNS] for each in rows])


def validate(trainer: Trainer, pool: Executor, folder: Path) -> float:
    """Return the geometric mean of the policy's delay in s on validation.

    The weights with the lowest one so far are kept in ``best.th``.
    """
    score = mean_delay_s(trainer.config, trainer.traffic, pool, trainer.weights())
    if score < trainer.best_score:
        trainer.best_score = score
        write_policy(trainer.actor, folder / "best.th")
    return score


def best_of(
    policies: Sequence[RecurrentPolicy], config: Config, traffic: Traffic, workers: int
) -> RecurrentPolicy:
    """Return the policy with the lowest geometric mean of the delay on validation."""
    with make_pool(workers) as pool:
        scores = [
            mean_delay_s(config, traffic, pool, as_arrays(each.state_dict())) for each in policies
        ]
    return policies[int(np.argmin(scores))]


def mean_delay_s(config: Config, traffic: Traffic, pool: Executor, weights: Weights) -> float:
    """Return the geometric mean of a policy's delay on validation, in s."""
    delays = delays_s(config, traffic, pool, weights, traffic.validation())
    return float(np.exp(np.mean(np.log(delays))))


def delays_s(
    config: Config, traffic: Traffic, pool: Executor, weights: Weights, tasks: Sequence[Task]
) -> list[float]:
    """Return the delay of a policy in each task, in s."""
    running = [pool.submit(judge_policy, traffic, weights, task) for task in tasks]
    return [
        each.result().weighed_delay_s(config.pedestrian_weight, task.scenario.bus_weight)
        for task, each in zip(tasks, running, strict=True)
    ]


def mean_times(episodes: Sequence[Episode]) -> dict[str, float]:
    """Of the sampling policy on this iteration's drawn traffic, in seconds per vehicle."""
    return {
        "waiting_s": float(np.mean([episode.metrics.waiting_s for episode in episodes])),
        "time_loss_s": float(np.mean([episode.metrics.delay_s for episode in episodes])),
    }


def drive_episode(traffic: Traffic, config: Config, weights: Weights, task: Task) -> Episode:
    """Drive one episode in this process with actions sampled from the policy."""
    driver, junctions = Driver(weights, traffic.network), traffic.network.ids
    rng = np.random.default_rng((task.seed, task.repeat))
    shares = config.team_share, config.pedestrian_weight
    seen: defaultdict[str, list[Any]] = defaultdict(list)
    with Environment(task.scenario) as environment:
        observations = environment.reset(task.seed)
        rewards = Rewards(environment, *shares)
        while not environment.is_over:
            inputs, logits = driver.step(observations)
            chosen = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
            choices, state = environment.choices, rewards.state(observations)
            free = [choices[each] for each in junctions]
            made = {"inputs": inputs, "states": state, "actions": chosen, "free": free}
            observations = environment.step(dict(zip(junctions, map(int, chosen), strict=True)))
            made["rewards"] = rewards.look().astype(np.float32)
            for name, part in made.items():
                seen[name].append(part)
        seen["states"].append(rewards.state(observations))
        metrics = environment.metrics()
    return Episode({name: np.array(part) for name, part in seen.items()}, metrics)


def judge_policy(traffic: Traffic, weights: Weights, task: Task) -> Metrics:
    """Drive a task with the policy's most probable actions, as it is served."""
    step = PolicyStep(weights, traffic.network)
    return controllers.run(
        task.scenario, task.seed, lambda _: controllers.PolicyController(step, traffic.network)
    )
