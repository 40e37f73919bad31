"""A whole run in its folder: rollouts, learning, validation, checkpoints."""

from __future__ import annotations

import csv
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from lab.train.checkpoint import write_atomically
from lab.train.mappo.config import Config
from lab.train.mappo.networks import as_arrays
from lab.train.mappo.rollout import Episode, RolloutWorkers
from lab.train.mappo.traffic import Traffic
from lab.train.mappo.trainer import Trainer
from models.policy.training_record import TrainingRecord, write_record

COLUMNS = (
    *("iteration", "reward", "waiting_s", "time_loss_s", "validation", "explained", "value_loss"),
    *("policy_loss", "entropy", "kl", "clipped", "actor_steps", "wall_s"),
)
SHOWN = ("reward", "waiting_s", "time_loss_s", "validation", "kl")


class Log:
    """A CSV file with a row per iteration; rows after the last checkpoint are dropped."""

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


def train(config: Config, folder: Path, workers: int, traffic: Traffic, start: Path) -> float:
    """Run all iterations that the folder does not have yet; returns the best score so far.

    ``best.th`` is what validated best, ``last.th`` what the last iteration left; each has a record
    of its training.

    Args:
        start: the policy to begin with.

    Raises:
        InvalidPolicyFileError, InvalidCheckpointError: what to start or continue from is unusable.
    """
    torch.set_num_threads(1)  # sums in another order would bend the curve
    trainer = Trainer(config, traffic, start)
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = folder / "checkpoint.pt"
    if checkpoint.exists():
        trainer.resume(checkpoint)
    record = TrainingRecord(traffic.settings["safety"], traffic.settings["counts"])
    for name in ("best.th", "last.th"):
        write_record(folder / name, record)
    log = Log(folder / "log.csv", trainer.iteration)
    pool = RolloutWorkers(workers, traffic, config)
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
            write_atomically(trainer.average_weights(), folder / "last.th")
            progress.update()
            progress.set_postfix({name: f"{row[name]:.3g}" for name in SHOWN if name in row})
        score = validate(trainer, pool, folder)
        log.write({"iteration": trainer.iteration, "validation": score})
    finally:
        progress.close()
        pool.close()
    return trainer.best_score


def validate(trainer: Trainer, pool: RolloutWorkers, folder: Path) -> float:
    """Return the geometric mean of the averaged policy's delay in s on validation.

    The weights with the lowest one so far are kept in ``best.th``.
    """
    weights = trainer.average_weights()
    tasks = trainer.traffic.validation()
    weight = trainer.config.pedestrian_weight
    losses = [
        metrics.delay_s(weight, task.scenario.bus_weight)
        for task, metrics in zip(tasks, pool.test(as_arrays(weights), tasks), strict=True)
    ]
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
