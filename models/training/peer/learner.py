"""Training and driving with maskable PPO, its weights shared by all signals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback

from models.networks.network import network_of
from models.policy.inputs import InputLayout
from models.simulation.city.environment import CityEnvironment
from models.simulation.city.scenario import CityScenario
from models.simulation.metrics import Metrics
from models.training.peer.signals import SignalsVecEnv

FIRST_SEED = 3_000_000  # of training; no evaluation comes near
MODEL = "model.zip"
HOUR_S = 3600

# Those of RESCO's IPPO (agents/pfrl_ppo.py); what it leaves open is the library's default.
HYPERPARAMETERS = {
    "learning_rate": 2.5e-4,
    "n_steps": 1024,  # of each signal
    "batch_size": 256,
    "n_epochs": 4,
    "clip_range": 0.1,
    "ent_coef": 0.001,
    "max_grad_norm": 0.5,
}


def train(
    scenario: CityScenario, hours: int, folder: Path, told: Callable[[int, Metrics], None]
) -> Path:
    """Train for some simulated hours, or go on to as many where the folder has a model.

    Args:
        told: of the number of each hour, from 1 on, and of how it went.

    Returns:
        The file of the model.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / MODEL
    steps = steps_of(scenario)
    n_signals = len(scenario.network.junctions)
    torch.set_num_threads(1)  # networks this small are slower on more
    known = MaskablePPO.load(path) if path.exists() else None
    done = known.num_timesteps // (steps * n_signals) if known is not None else 0
    hour = done

    def ended(metrics: Metrics) -> None:
        nonlocal hour
        hour += 1
        told(hour, metrics)

    environment = SignalsVecEnv(scenario, FIRST_SEED + done, ended)
    try:
        if known is None:
            model = MaskablePPO("MlpPolicy", environment, seed=FIRST_SEED, **HYPERPARAMETERS)
        else:
            model = known
            model.set_env(environment)
        missing = max(0, hours * steps * n_signals - model.num_timesteps)
        if missing:
            model.learn(missing, _Keep(path), reset_num_timesteps=known is None)
            _save(model, path)
    finally:
        environment.close()
    return path


def steps_of(scenario: CityScenario) -> int:
    """Return the decisions of one run."""
    return -((scenario.begin_s - scenario.end_s) // scenario.decision_s)


def read_model(path: Path) -> MaskablePPO:
    return MaskablePPO.load(path, device="cpu")


def hours_of(model: MaskablePPO, scenario: CityScenario) -> float:
    """Return the simulated hours that a model was trained with."""
    runs = model.num_timesteps / (steps_of(scenario) * len(scenario.network.junctions))
    return float(runs * (scenario.end_s - scenario.begin_s) / HOUR_S)


def drive(model: MaskablePPO, scenario: CityScenario, seed: int) -> Metrics:
    """Let a model decide for one run; each signal takes its most probable action."""
    network = network_of(scenario.network)
    layout, available = InputLayout(network), ~network.unavailable
    with CityEnvironment(scenario) as environment:
        observations = environment.reset(seed)
        while not environment.is_over:
            inputs = layout.encode_all(observations)
            actions, _ = model.predict(inputs, deterministic=True, action_masks=available)
            decided = zip(network.ids, map(int, actions), strict=True)
            observations = environment.step(dict(decided))
        return environment.metrics()


class _Keep(BaseCallback):
    """Keeps the model after each update, whole at any time."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._updates = 0

    def _on_rollout_start(self) -> None:
        if self._updates:
            _save(self.model, self._path)
        self._updates += 1

    def _on_step(self) -> bool:
        return True


def _save(model: MaskablePPO, path: Path) -> None:
    part = path.with_name(f"part-{path.name}")
    model.save(part)
    part.replace(path)
