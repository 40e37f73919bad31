"""Train the density forecast on the simulated days: ``make train-density``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from lab.train.forecasts.dataset import (
    HOUR_SLOTS,
    Calendar,
    DensityWindows,
    Split,
    density_windows,
    split_days,
)
from lab.train.forecasts.density_network import DensityNetwork
from lab.train.forecasts.density_results import TITLE, compare, write_density_report
from lab.train.forecasts.fit import FitSettings, fit
from lab.train.forecasts.report import draft_card, print_comparison, read_options
from lab.train.forecasts.scales import scale_of
from models.artifacts import write_artifact
from models.density.forecast import N_EDGES, DensityConfig, DensityForecaster

WEIGHTS_FILE = Path(__file__).parents[3] / "models" / "weights" / "density.safetensors"
HIDDEN_DIM = 64
BATCH = 256
SEED = 0

Floats = NDArray[np.float64]


def main(arguments: Sequence[str] | None = None) -> None:
    options = read_options(__doc__, WEIGHTS_FILE, arguments)
    calendar = Calendar.load(options.data)
    split = split_days(calendar.n_days)
    train(calendar, split, options.output, options.reports, FitSettings())


def train(
    calendar: Calendar, split: Split, output: Path, reports: Path, settings: FitSettings
) -> DensityForecaster:
    """Choose the edges, train, measure on the test days, write the artifact and the report."""
    torch.manual_seed(SEED)
    edges = most_congested(calendar, split.train)
    density = calendar.density_of(edges)
    learned, held_out = (
        density_windows(density, split.train, stride=1),
        density_windows(density, split.validation, HOUR_SLOTS),
    )
    scales = {edge: scale_of(learned.inputs[..., n]) for n, edge in enumerate(edges)}
    config = DensityConfig(hidden_dim=HIDDEN_DIM, edges=edges, scales=scales)
    network, best = _fit(config, learned, held_out, settings)
    tensors = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    card = draft_card(calendar, split)
    comparison = compare(DensityForecaster(tensors, config, card), calendar, split)
    print_comparison(TITLE, comparison)
    lstm = comparison["LSTM"]
    card = card.model_copy(
        update={
            "test_loss": round(float(np.mean([lstm[e] / scales[e].std for e in edges])), 4),
            "test_mae": lstm["all"],
            "metrics": {"mae_vehicles_per_km": comparison, "validation_loss": round(best, 4)},
        }
    )
    write_artifact(output, tensors, config, card)
    forecaster = DensityForecaster.load(output)
    write_density_report(forecaster, calendar, split, comparison, reports)
    return forecaster


def most_congested(calendar: Calendar, days: range) -> tuple[str, ...]:
    """Return the edges with the highest mean density on these days, the densest first."""
    slots = len(calendar.measurements.density) // calendar.n_days
    mean = calendar.measurements.density[days.start * slots : days.stop * slots].mean(axis=0)
    return tuple(calendar.edges[column] for column in mean.argsort()[::-1][:N_EDGES])


def _fit(
    config: DensityConfig, learned: DensityWindows, held_out: DensityWindows, settings: FitSettings
) -> tuple[DensityNetwork, float]:
    mean, std = config.column("mean"), config.column("std")

    def scaled(values: Floats) -> Tensor:
        return torch.from_numpy(((values - mean) / std).astype(np.float32))

    inputs, targets = scaled(learned.inputs), scaled(learned.targets)
    validation = scaled(held_out.inputs), scaled(held_out.targets)
    network = DensityNetwork(config.hidden_dim)

    def batches() -> Iterator[Tensor]:
        yield from torch.split(torch.randperm(len(inputs)), BATCH)

    def loss_of(rows: Tensor) -> Tensor:
        return functional.l1_loss(network(inputs[rows]), targets[rows])

    def validate() -> float:
        return float(functional.l1_loss(network(validation[0]), validation[1]))

    best = fit(network, batches, loss_of, validate, settings)
    return network, best


if __name__ == "__main__":
    main()
