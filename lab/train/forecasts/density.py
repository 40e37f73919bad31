"""The density forecast, trained on the simulated days and measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from lab.train.forecasts.dataset import (
    HOUR_SLOTS,
    Calendar,
    DensityWindows,
    Split,
    density_windows,
    scale_of,
    split_days,
)
from lab.train.forecasts.networks import DensityNetwork
from lab.train.forecasts.training import (
    WEIGHTS,
    Comparison,
    Curve,
    FitSettings,
    Floats,
    LinearAutoregression,
    draft_card,
    fit,
    plot_forecasts,
    read_options,
    write_report,
)
from models.artifacts import write_artifact
from models.density.forecast import N_EDGES, DensityConfig, DensityForecaster

WEIGHTS_FILE = WEIGHTS / "density.safetensors"
HIDDEN_DIM = 64
BATCH = 256
SEED = 0
TITLE = "Density, vehicles/km: mean absolute error on the test days"
SHOWN_DAYS = slice(3, 7)  # Thursday to Sunday of the first test week


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
    _write_report(forecaster, calendar, split, comparison, reports)
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


def compare(forecaster: DensityForecaster, calendar: Calendar, split: Split) -> Comparison:
    """Mean absolute error on the test days, by method and edge, and over all edges."""
    density = calendar.density_of(forecaster.edges)
    # the autoregression learns from the same windows as the network
    learned = density_windows(density, split.train, stride=1)
    linear = LinearAutoregression(learned.inputs, learned.targets)
    test = density_windows(density, split.test, HOUR_SLOTS)
    forecasts = {
        "LSTM": forecaster(test.inputs),
        "persistence": test.inputs[:, -1],
        "same hour yesterday": test.yesterday,
        "linear autoregression": linear(test.inputs),
    }
    return {
        method: _by_edge(forecaster.edges, np.abs(forecast - test.targets).mean(axis=0))
        for method, forecast in forecasts.items()
    }


def _by_edge(edges: Sequence[str], errors: Floats) -> dict[str, float]:
    named = dict(zip(edges, errors.round(4).tolist(), strict=True))
    return {**named, "all": round(float(errors.mean()), 4)}


def _write_report(
    forecaster: DensityForecaster,
    calendar: Calendar,
    split: Split,
    comparison: Comparison,
    folder: Path,
) -> None:
    test = density_windows(calendar.density_of(forecaster.edges), split.test, HOUR_SLOTS)
    days = split.test[SHOWN_DAYS] or split.test
    first = days.start * 24
    shown = np.flatnonzero((test.hours >= first) & (test.hours < days.stop * 24))
    forecast = forecaster(test.inputs[shown])
    panels = [
        Curve(
            edge,
            (test.hours[shown] - first).astype(float),
            test.targets[shown, n],
            forecast[:, n],
            test.inputs[shown, -1, n],
        )
        for n, edge in enumerate(forecaster.edges)
    ]
    plot_forecasts(
        folder / "density.png", "Density one hour ahead, Thursday to Sunday", "vehicles/km", panels
    )
    text = f"""
Means over the {len(split.test)} test days, which neither training nor the choice of epoch has seen.
Training saw {len(split.train)} days, the choice of epoch {len(split.validation)}.
The network sees three hours of five edges and nothing else: no clock, no calendar.

![Forecast and truth](density.png)
"""
    write_report(folder / "density.md", TITLE, comparison, text)


if __name__ == "__main__":
    main()
