"""The flow forecast, trained on the simulated days and measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lab.tables import markdown
from lab.train.forecasts.calibrate import UNCALIBRATED, calibrate, shortened_inputs
from lab.train.forecasts.dataset import Calendar, Split, Windows, flattened, flow_windows, scale_of
from lab.train.forecasts.networks import FlowNetwork
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
from models.artifacts import ColumnScale, write_artifact
from models.flow.forecast import Calibration, FlowConfig, FlowForecaster
from models.flow.window import FEATURES, HORIZON, WINDOW

WEIGHTS_FILE = WEIGHTS / "flow.safetensors"
HIDDEN_DIM = 48
BATCH = 512
SEED = 0
REPORTED_HISTORIES = (60, 15, 4, 1)  # minutes
TRAIN_STRIDE = 4  # minutes between windows; neighbours tell nearly the same
TEST_STRIDE = 5
SHORT_SHARE = 0.5  # of the training windows that lack their oldest minutes


def train(
    calendar: Calendar, split: Split, output: Path, reports: Path, settings: FitSettings
) -> None:
    """Train, calibrate on the validation days, measure on the test days, write what came of it."""
    torch.manual_seed(SEED)
    learned = flow_windows(calendar, split.train, TRAIN_STRIDE)
    held_out = flow_windows(calendar, split.validation, TEST_STRIDE)
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
    test = flow_windows(calendar, split.test, TEST_STRIDE)
    measured = compare(forecaster, learned, test)
    curves = [reliability(forecaster, test, observed) for observed in REPORTED_HISTORIES]
    metrics = {
        "mae_vehicles_per_minute": measured.comparison(),
        "within_tolerance": round(float(curves[0].hits.mean()), 4),
        "mean_confidence": round(float(curves[0].confidences.mean()), 4),
        "calibration_error": round(curves[0].calibration_error, 4),
        "validation_loss": round(best, 4),
    }
    card = measured.complete(card, config.table("std")[:, 0], metrics)
    write_artifact(output, tensors, config, card)
    measured.write_report(reports / "flow.md", "Flow", _text(split, calibration, curves))


def _scales(calendar: Calendar, days: range) -> dict[str, dict[str, ColumnScale]]:
    inputs = flow_windows(calendar, days, stride=WINDOW).inputs
    return {
        junction: {feature: scale_of(inputs[:, row, :, n]) for n, feature in enumerate(FEATURES)}
        for row, junction in enumerate(calendar.junctions)
    }


def _fit(
    config: FlowConfig, learned: Windows, held_out: Windows, settings: FitSettings
) -> tuple[FlowNetwork, float]:
    mean, std = config.table("mean"), config.table("std")
    random = np.random.default_rng(SEED)

    def tensors(windows: Windows) -> tuple[Tensor, Tensor, Tensor]:
        """Scaled inputs, one-hot junctions and scaled targets of all windows."""
        inputs, rows = flattened(windows)
        inputs = (inputs - mean[rows, None]) / std[rows, None]
        targets = (windows.targets - mean[:, 0]) / std[:, 0]
        scaled = [torch.from_numpy(each.astype(np.float32)) for each in (inputs, targets.ravel())]
        return scaled[0], torch.eye(len(config.junctions))[rows], scaled[1]

    inputs, junctions, targets = tensors(learned)
    shown, shown_junctions, came = tensors(held_out)
    network = FlowNetwork(config.hidden_dim, len(config.junctions))

    def loss_of(rows: Tensor) -> Tensor:
        outlook = network(shorten(inputs[rows], random), junctions[rows])
        return _laplace_loss(outlook.median, outlook.log_scale, targets[rows])

    def validate() -> float:
        return float((network(shown, shown_junctions).median - came).abs().mean())

    return network, fit(network, len(inputs), BATCH, loss_of, validate, settings)


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


@dataclass(frozen=True)
class Reliability:
    """Forecasts with so many minutes observed: (N,) confidence, and whether the event came."""

    observed: int
    confidences: Floats
    hits: NDArray[np.bool_]

    @property
    def calibration_error(self) -> float:
        """Mean absolute difference of confidence and frequency, over ten bins of equal number."""
        order = np.array_split(self.confidences.argsort(), 10)
        said = np.array([self.confidences[part].mean() for part in order])
        came = np.array([self.hits[part].mean() for part in order])
        return float(np.abs(said - came).mean())


def compare(forecaster: FlowForecaster, learned: Windows, test: Windows) -> Measured:
    """Forecast the test days by every method."""
    forecasts = {
        LSTM: forecast_all(forecaster, test),
        "persistence": test.inputs[:, :, -HORIZON:, 0].mean(axis=2),
        "same time yesterday": test.yesterday,
        "linear autoregression": _linear(learned, test),
    }
    return Measured(tuple(forecaster.rows), "vehicles/min", test, forecasts)


def forecast_all(forecaster: FlowForecaster, windows: Windows) -> Floats:
    """Return (N, junctions) forecasts from full hours."""
    inputs, junctions = flattened(windows)
    flows = forecaster(inputs, junctions, np.full(len(inputs), WINDOW)).flows
    return flows.reshape(windows.targets.shape)


def _linear(learned: Windows, test: Windows) -> Floats:
    """One autoregression per junction, over all minutes and features of the window."""
    forecast = np.empty_like(test.targets)
    for junction in range(forecast.shape[1]):
        model = LinearAutoregression(learned.inputs[:, junction], learned.targets[:, junction])
        forecast[:, junction] = model(test.inputs[:, junction])
    return forecast


def reliability(forecaster: FlowForecaster, test: Windows, observed: int) -> Reliability:
    """Confidences, and whether the forecasts, rounded as in answers, are within tolerance."""
    inputs, junctions = flattened(test)
    shortened = shortened_inputs(inputs, observed)
    forecasts = forecaster(shortened, junctions, np.full(len(inputs), observed))
    flows = forecasts.flows.round()
    hits = np.abs(flows - test.targets.ravel()) <= forecaster.calibration.tolerance(flows)
    return Reliability(observed, forecasts.confidences, hits)


def _text(split: Split, calibration: Calibration, curves: Sequence[Reliability]) -> str:
    event = (
        f"the mean flow of the 15 minutes is within {calibration.vehicles:g} vehicle per minute or "
        f"{calibration.share:.0%} of `predicted_flow`, whichever is more"
    )
    heads = "minutes observed", "forecasts within, on the test days", "mean confidence"
    rows = [(c.observed, f"{c.hits.mean():.1%}", f"{c.confidences.mean():.1%}") for c in curves]
    table = "\n".join(markdown(heads, rows, texts=0))
    return f"""
Means over the {len(split.test)} test days, which neither training nor the choice of epoch nor the
calibration has seen. Training saw {len(split.train)} days, the other two
{len(split.validation)} days.
The autoregression is one per junction, over all minutes and features of the window.

`confidence` is the probability that {event}.
It is a logistic function of the spread that the network sees, fitted on the validation days. The
same forecast with the same spread has the less confidence the fewer minutes of the hour were
observed; a single forecast can still gain some when the older minutes are left out, because the
network then sees another past.

{table}
"""


if __name__ == "__main__":
    run(__doc__, train, WEIGHTS_FILE, FitSettings(max_epochs=40, patience=6))
