"""Train the flow forecast on the simulated days: ``make train-flow``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lab.train.forecasts.calibrate import calibrate
from lab.train.forecasts.dataset import (
    Calendar,
    FlowWindows,
    Split,
    flow_windows,
    split_days,
)
from lab.train.forecasts.fit import FitSettings, fit
from lab.train.forecasts.flow_network import FlowNetwork
from lab.train.forecasts.flow_results import TITLE, compare, reliability, write_flow_report
from lab.train.forecasts.report import draft_card, print_comparison, read_options
from lab.train.forecasts.scales import scale_of
from models.artifacts import ColumnScale, write_artifact
from models.flow.forecast import Calibration, FlowConfig, FlowForecaster
from models.flow.window import FEATURES, WINDOW

WEIGHTS_FILE = Path(__file__).parents[3] / "models" / "weights" / "flow.safetensors"
HIDDEN_DIM = 48
BATCH = 512
SEED = 0
REPORTED_HISTORIES = (60, 15, 4, 1)  # minutes
TRAIN_STRIDE = 4  # minutes between windows; neighbours tell nearly the same
TEST_STRIDE = 5
SHORT_SHARE = 0.5  # of the training windows that lack their oldest minutes
UNCALIBRATED = Calibration(vehicles=1.0, share=0.1, slope=1.0, observed=(WINDOW,), offsets=(0.0,))

Floats = NDArray[np.float64]


def main(arguments: Sequence[str] | None = None) -> None:
    options = read_options(__doc__, WEIGHTS_FILE, arguments)
    settings = FitSettings(max_epochs=40, patience=6)
    calendar = Calendar.load(options.data)
    split = split_days(calendar.n_days)
    train(calendar, split, options.output, options.reports, settings)


def train(
    calendar: Calendar, split: Split, output: Path, reports: Path, settings: FitSettings
) -> FlowForecaster:
    """Train, calibrate on the validation days, measure on the test days, write what came of it."""
    torch.manual_seed(SEED)
    learned = flow_windows(calendar.measurements, split.train, TRAIN_STRIDE)
    held_out = flow_windows(calendar.measurements, split.validation, TEST_STRIDE)
    config = FlowConfig(
        hidden_dim=HIDDEN_DIM,
        junctions=calendar.junctions,
        scales=_scales(calendar, split.train),
        calibration=UNCALIBRATED,
    )
    network, best = _fit(config, learned, held_out, settings)
    tensors = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    card = draft_card(calendar, split)
    calibration = calibrate(FlowForecaster(tensors, config, card), held_out)
    config = config.model_copy(update={"calibration": calibration})
    forecaster = FlowForecaster(tensors, config, card)
    test = flow_windows(calendar.measurements, split.test, TEST_STRIDE)
    comparison = compare(forecaster, learned, test, calendar.junctions)
    print_comparison(TITLE, comparison)
    curves = [reliability(forecaster, test, observed) for observed in REPORTED_HISTORIES]
    stds = np.array([config.scales[j]["vehicle_count"].std for j in calendar.junctions])
    by_junction = [comparison["LSTM"][junction] for junction in calendar.junctions]
    card = card.model_copy(
        update={
            "test_loss": round(float(np.mean(by_junction / stds)), 4),
            "test_mae": comparison["LSTM"]["all"],
            "metrics": {
                "mae_vehicles_per_minute": comparison,
                "within_tolerance": round(float(curves[0].hits.mean()), 4),
                "mean_confidence": round(float(curves[0].confidences.mean()), 4),
                "calibration_error": round(curves[0].calibration_error, 4),
                "validation_loss": round(best, 4),
            },
        }
    )
    write_artifact(output, tensors, config, card)
    forecaster = FlowForecaster.load(output)
    write_flow_report(forecaster, test, curves, comparison, split, reports)
    return forecaster


def _scales(calendar: Calendar, days: range) -> dict[str, dict[str, ColumnScale]]:
    windows = flow_windows(calendar.measurements, days, stride=WINDOW)
    return {
        junction: {
            feature: scale_of(windows.inputs(np.flatnonzero(windows.junctions == row))[..., n])
            for n, feature in enumerate(FEATURES)
        }
        for row, junction in enumerate(calendar.junctions)
    }


def _fit(
    config: FlowConfig, learned: FlowWindows, held_out: FlowWindows, settings: FitSettings
) -> tuple[FlowNetwork, float]:
    mean, std = config.table("mean"), config.table("std")
    one_hot = torch.eye(len(config.junctions))
    random = np.random.default_rng(SEED)

    def tensors(windows: FlowWindows) -> tuple[Tensor, Tensor]:
        """Scaled inputs and targets of all windows."""
        rows = windows.junctions
        inputs = ((windows.inputs() - mean[rows, None]) / std[rows, None]).astype(np.float32)
        targets = ((windows.targets() - mean[rows, 0]) / std[rows, 0]).astype(np.float32)
        return torch.from_numpy(inputs), torch.from_numpy(targets)

    inputs, targets = tensors(learned)
    validation = tensors(held_out)
    network = FlowNetwork(config.hidden_dim, len(config.junctions))

    def batches() -> Iterator[Tensor]:
        yield from torch.split(torch.randperm(len(inputs)), BATCH)

    def loss_of(rows: Tensor) -> Tensor:
        windows = shorten(inputs[rows], random)
        outlook = network(windows, one_hot[learned.junctions[rows.numpy()]])
        return _laplace_loss(outlook.median, outlook.log_scale, targets[rows])

    def validate() -> float:
        outlook = network(validation[0], one_hot[held_out.junctions])
        return float((outlook.median - validation[1]).abs().mean())

    best = fit(network, batches, loss_of, validate, settings)
    return network, best


def shorten(inputs: Tensor, random: np.random.Generator) -> Tensor:
    """Pad a share of the windows at their old end, as short histories are padded in service."""
    shortened = inputs.clone()
    chosen = np.flatnonzero(random.random(len(inputs)) < SHORT_SHARE)
    # half of any length, half of them mostly very short, where each further minute adds most
    share, very_short = random.random(len(chosen)), random.random(len(chosen)) < 0.5
    kept = np.ceil(np.where(very_short, WINDOW**share, WINDOW * share)).clip(1).astype(int)
    for row, first in zip(chosen.tolist(), (WINDOW - kept).tolist(), strict=True):
        shortened[row, :first] = inputs[row, first]
    return shortened


def _laplace_loss(median: Tensor, log_scale: Tensor, target: Tensor) -> Tensor:
    """Negative log-likelihood of a Laplace distribution; for the median, the absolute error."""
    return (log_scale + (target - median).abs() * torch.exp(-log_scale)).mean()


if __name__ == "__main__":
    main()
