"""Training and driving with maskable PPO, its weights shared by all signals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback

from examples.stable_baselines3.signals import SignalsVecEnv
from lab.sim.controllers import run
from lab.sim.metrics import Metrics
from lab.sim.observation import Observation
from lab.sim.scenario import Scenario
from models.networks.network import network_of
from models.policy.inputs import InputLayout

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
    scenario: Scenario, hours: int, folder: Path, ended: Callable[[int, Metrics], None]
) -> Path:
    """Train for some simulated hours, or continue up to as many where the folder has a model.

    Args:
        ended: called with the number of each hour, from 1 on, and how it went.

    Returns:
        The file of the model.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / MODEL
    steps = scenario.n_decisions
    n_signals = len(scenario.network.junctions)
    torch.set_num_threads(1)  # networks this small are slower on more
    known = MaskablePPO.load(path) if path.exists() else None
    done = known.num_timesteps // (steps * n_signals) if known is not None else 0
    hour = done

    def count(metrics: Metrics) -> None:
        nonlocal hour
        hour += 1
        ended(hour, metrics)

    environment = SignalsVecEnv(scenario, FIRST_SEED + done, count)
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


def read_model(path: Path) -> MaskablePPO:
    return MaskablePPO.load(path, device="cpu")


def hours_of(model: MaskablePPO, scenario: Scenario) -> float:
    """Return the simulated hours that a model was trained with."""
    runs = model.num_timesteps / (scenario.n_decisions * len(scenario.network.junctions))
    return float(runs * (scenario.end_s - scenario.begin_s) / HOUR_S)


def drive(model: MaskablePPO, scenario: Scenario, seed: int) -> Metrics:
    """Let a model decide for one run; each signal takes its most probable action."""
    return run(scenario, seed, lambda environment: _ModelController(model, scenario))


class _ModelController:
    def __init__(self, model: MaskablePPO, scenario: Scenario) -> None:
        self._model = model
        self._network = network_of(scenario.network)
        self._layout = InputLayout(self._network)

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        inputs = self._layout.encode_all(observations)
        available = ~self._network.unavailable
        actions, _ = self._model.predict(inputs, deterministic=True, action_masks=available)
        return dict(zip(self._network.ids, map(int, actions), strict=True))


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
