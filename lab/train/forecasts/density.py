"""The density forecast, trained on the simulated days and measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from lab.train.forecasts.dataset import (
    HOUR_SLOTS,
    Calendar,
    Split,
    Windows,
    density_windows,
    scale_of,
)
from lab.train.forecasts.networks import DensityNetwork
from lab.train.forecasts.training import (
    LSTM,
    WEIGHTS,
    FitSettings,
    Floats,
    LinearAutoregression,
    Measured,
    draft_card,
    fit,
    run,
)
from models.artifacts import write_artifact
from models.density.forecast import N_EDGES, DensityConfig, DensityForecaster

WEIGHTS_FILE = WEIGHTS / "density.safetensors"
HIDDEN_DIM = 64
BATCH = 256
SEED = 0


def train(
    calendar: Calendar, split: Split, output: Path, reports: Path, settings: FitSettings
) -> None:
    """Choose the edges, train, measure on the test days, write the artifact and the report."""
    torch.manual_seed(SEED)
    edges = most_congested(calendar, split.train)
    density = calendar.density_of(edges)
    learned = density_windows(density, split.train, stride=1)
    held_out = density_windows(density, split.validation, HOUR_SLOTS)
    scales = {edge: scale_of(learned.inputs[..., n]) for n, edge in enumerate(edges)}
    config = DensityConfig(hidden_dim=HIDDEN_DIM, edges=edges, scales=scales)
    network, best = _fit(config, learned, held_out, settings)
    tensors = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    card = draft_card(calendar, split)
    test = density_windows(density, split.test, HOUR_SLOTS)
    measured = compare(DensityForecaster(tensors, config, card), learned, test)
    metrics = {"mae_vehicles_per_km": measured.comparison(), "validation_loss": round(best, 4)}
    write_artifact(output, tensors, config, measured.complete(card, config.column("std"), metrics))
    measured.write_report(reports / "density.md", "Density", _text(split))


def most_congested(calendar: Calendar, days: range) -> tuple[str, ...]:
    """Return the edges with the highest mean density on these days, the densest first."""
    slots = len(calendar.density) // calendar.n_days
    mean = calendar.density[days.start * slots : days.stop * slots].mean(axis=0)
    return tuple(calendar.edges[column] for column in mean.argsort()[::-1][:N_EDGES])


def _fit(
    config: DensityConfig, learned: Windows, held_out: Windows, settings: FitSettings
) -> tuple[DensityNetwork, float]:
    mean, std = config.column("mean"), config.column("std")

    def scaled(values: Floats) -> Tensor:
        return torch.from_numpy(((values - mean) / std).astype(np.float32))

    inputs, targets = scaled(learned.inputs), scaled(learned.targets)
    validation = scaled(held_out.inputs), scaled(held_out.targets)
    network = DensityNetwork(config.hidden_dim)

    def loss_of(rows: Tensor) -> Tensor:
        return functional.l1_loss(network(inputs[rows]), targets[rows])

    def validate() -> float:
        return float(functional.l1_loss(network(validation[0]), validation[1]))

    return network, fit(network, len(inputs), BATCH, loss_of, validate, settings)


def compare(forecaster: DensityForecaster, learned: Windows, test: Windows) -> Measured:
    """Forecast the test days by every method."""
    # the autoregression learns from the same windows as the network
    linear = LinearAutoregression(learned.inputs, learned.targets)
    forecasts = {
        LSTM: forecaster(test.inputs),
        "persistence": test.inputs[:, -1],
        "same hour yesterday": test.yesterday,
        "linear autoregression": linear(test.inputs),
    }
    return Measured(forecaster.edges, "vehicles/km", test, forecasts)


def _text(split: Split) -> str:
    return f"""
Means over the {len(split.test)} test days, which neither training nor the choice of epoch has seen.
Training saw {len(split.train)} days, the choice of epoch {len(split.validation)}.
The network sees three hours of five edges and nothing else: no clock, no calendar.
"""


if __name__ == "__main__":
    run(__doc__, train, WEIGHTS_FILE, FitSettings())
