"""The flow forecast, trained on the simulated days and measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from lab.train.forecasts.calibrate import calibrate, shortened_inputs
from lab.train.forecasts.dataset import (
    MINUTES,
    Calendar,
    FlowWindows,
    Split,
    flow_windows,
    scale_of,
    split_days,
)
from lab.train.forecasts.networks import FlowNetwork
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
    save_figure,
    write_report,
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
UNCALIBRATED = Calibration(vehicles=1.0, share=0.1, slope=1.0, observed=(WINDOW,), offsets=(0.0,))
TITLE = "Flow, vehicles/min: mean absolute error on the test days"
SHOWN_DAY = 3  # the first Thursday


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
    _write_report(forecaster, test, curves, comparison, split, reports)
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


@dataclass(frozen=True)
class Reliability:
    """Forecasts with so many minutes observed: (N,) confidence, and whether the event came."""

    observed: int
    confidences: Floats
    hits: NDArray[np.bool_]

    def bins(self, n_bins: int = 10) -> tuple[Floats, Floats]:
        """Mean confidence and frequency of the event, in bins of equal number."""
        order = np.array_split(self.confidences.argsort(), n_bins)
        said = np.array([self.confidences[part].mean() for part in order])
        came = np.array([self.hits[part].mean() for part in order])
        return said, came

    @property
    def calibration_error(self) -> float:
        """Mean absolute difference of both over the bins."""
        said, came = self.bins()
        return float(np.abs(said - came).mean())


def compare(
    forecaster: FlowForecaster, learned: FlowWindows, test: FlowWindows, junctions: Sequence[str]
) -> Comparison:
    """Mean absolute error on the test days, by method and junction, and over all junctions."""
    inputs = test.inputs()
    forecast, targets = curves_of(forecaster, test)
    forecasts = {
        "LSTM": forecast,
        "persistence": inputs[:, -HORIZON:, 0].mean(axis=1),
        "same time yesterday": test.targets(days_before=1),
        "linear autoregression": _linear(learned, test),
    }
    comparison = {}
    for method, forecast in forecasts.items():
        errors = np.abs(forecast - targets)
        row_errors = {
            junction: round(float(errors[test.junctions == row].mean()), 4)
            for row, junction in enumerate(junctions)
        }
        comparison[method] = {**row_errors, "all": round(float(errors.mean()), 4)}
    return comparison


def curves_of(forecaster: FlowForecaster, test: FlowWindows) -> tuple[Floats, Floats]:
    """(N,) forecasts from full hours and what came."""
    full = np.full(len(test.starts), WINDOW)
    return forecaster(test.inputs(), test.junctions, full).flows, test.targets()


def _linear(learned: FlowWindows, test: FlowWindows) -> Floats:
    """One autoregression per junction, over all minutes and features of the window."""
    forecast = np.empty(len(test.starts))
    for junction in np.unique(test.junctions):
        ours = np.flatnonzero(learned.junctions == junction)
        model = LinearAutoregression(learned.inputs(ours), learned.targets()[ours])
        theirs = np.flatnonzero(test.junctions == junction)
        forecast[theirs] = model(test.inputs(theirs))
    return forecast


def reliability(forecaster: FlowForecaster, test: FlowWindows, observed: int) -> Reliability:
    """Confidences, and whether the forecasts, rounded as in answers, are within tolerance."""
    inputs = shortened_inputs(test, observed)
    forecasts = forecaster(inputs, test.junctions, np.full(len(inputs), observed))
    flows = forecasts.flows.round()
    hits = np.abs(flows - test.targets()) <= forecaster.calibration.tolerance(flows)
    return Reliability(observed, forecasts.confidences, hits)


def _write_report(
    forecaster: FlowForecaster,
    test: FlowWindows,
    curves: list[Reliability],
    comparison: Comparison,
    split: Split,
    folder: Path,
) -> None:
    forecast, truth = curves_of(forecaster, test)
    day = split.test[min(SHOWN_DAY, len(split.test) - 1)]
    ends = test.starts + WINDOW - day * MINUTES
    panels = []
    for junction, row in forecaster.rows.items():
        shown = np.flatnonzero((test.junctions == row) & (ends >= 0) & (ends < MINUTES))
        now = test.inputs(shown)[:, -HORIZON:, 0].mean(axis=1)
        panels.append(Curve(junction, ends[shown] / 60, truth[shown], forecast[shown], now))
    plot_forecasts(
        folder / "flow.png",
        "Flow of the next 15 minutes on a Thursday, by the minute it was made",
        "vehicles/min",
        panels,
    )
    calibration = forecaster.calibration
    event = (
        f"the mean flow of the 15 minutes is within {calibration.vehicles:g} vehicle per minute or "
        f"{calibration.share:.0%} of `predicted_flow`, whichever is more"
    )
    _plot_calibration(folder / "flow_confidence.png", "Confidence on the test days", curves)
    rows = "\n".join(
        f"| {curve.observed} | {curve.hits.mean():.1%} | {curve.confidences.mean():.1%} |"
        for curve in curves
    )
    text = f"""
Means over the {len(split.test)} test days, which neither training nor the choice of epoch nor the
calibration has seen. Training saw {len(split.train)} days, the other two
{len(split.validation)} days.
The autoregression is one per junction, over all minutes and features of the window.

![Forecast and truth](flow.png)

`confidence` is the probability that {event}.
It is a logistic function of the spread that the network sees, fitted on the validation days. The
same forecast with the same spread has the less confidence the fewer minutes of the hour were
observed; a single forecast can still gain some when the older minutes are left out, because the
network then sees another past.

| minutes observed | forecasts within, on the test days | mean confidence |
|---:|---:|---:|
{rows}

![Calibration](flow_confidence.png)
"""
    write_report(folder / "flow.md", TITLE, comparison, text)


def _plot_calibration(path: Path, title: str, curves: Sequence[Reliability]) -> None:
    """Plot what the confidence said against how often it came true."""
    figure = Figure(figsize=(5.6, 5.2), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="#cccccc", lw=1, label="perfect")
    for curve in curves:
        said, came = curve.bins()
        error = f"off by {curve.calibration_error:.3f}"
        axes.plot(said, came, marker="o", ms=4, lw=1.2, label=f"{curve.observed} min, {error}")
    axes.set(xlim=(0, 1), ylim=(0, 1), title=title)
    axes.set_xlabel("confidence, mean of a tenth of the forecasts")
    axes.set_ylabel("share of them within tolerance")
    axes.legend(frameon=False, title="observed history")
    save_figure(figure, path)


if __name__ == "__main__":
    main()
