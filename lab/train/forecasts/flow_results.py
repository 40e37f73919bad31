"""How good the flow forecast is on the test days, and the page that reports it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lab.train.forecasts.baselines import LinearAutoregression
from lab.train.forecasts.calibrate import shortened_inputs
from lab.train.forecasts.dataset import FlowWindows, Split
from lab.train.forecasts.plots import (
    Curve,
    Reliability,
    plot_calibration,
    plot_forecasts,
)
from lab.train.forecasts.report import Comparison, write_report
from lab.train.forecasts.simulate import MINUTES
from models.flow.forecast import FlowForecaster
from models.flow.window import HORIZON, WINDOW

TITLE = "Flow, vehicles/min: mean absolute error on the test days"
SHOWN_DAY = 3  # the first Thursday

Floats = NDArray[np.float64]


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


def write_flow_report(
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
    plot_calibration(folder / "flow_confidence.png", "Confidence on the test days", curves)
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
