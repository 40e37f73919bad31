"""The shipped models are those of their cards: they give the same figures on the committed days."""

from typing import Any

import numpy as np
import pytest

from lab.train.forecasts import density, flow
from lab.train.forecasts.dataset import (
    HOUR_SLOTS,
    Calendar,
    density_windows,
    flow_windows,
    split_days,
)
from lab.train.forecasts.flow import curves_of, reliability
from lab.train.forecasts.training import Comparison, describe_data
from models.density.forecast import DensityForecaster
from models.flow.forecast import FlowForecaster


@pytest.fixture(scope="module")
def calendar() -> Calendar:
    return Calendar.load()


def beats_every_other(comparison: Comparison) -> bool:
    ours = comparison["LSTM"]
    others = [errors for method, errors in comparison.items() if method != "LSTM"]
    return all(ours[column] < errors[column] for errors in others for column in ours)


def test_density_figures_are_those_of_the_card(calendar):
    forecaster = DensityForecaster.load(density.WEIGHTS_FILE)
    card, split = forecaster.card, split_days(calendar.n_days)
    assert card.data == describe_data(calendar, split)
    test = density_windows(calendar.density_of(forecaster.edges), split.test, HOUR_SLOTS)
    errors = np.abs(forecaster(test.inputs) - test.targets).mean(axis=0)
    told: dict[str, Any] = card.metrics["mae_vehicles_per_km"]
    assert errors.tolist() == pytest.approx([told["LSTM"][e] for e in forecaster.edges], abs=1e-3)
    assert errors.mean() == pytest.approx(card.test_mae, abs=1e-3)
    assert beats_every_other(told)


def test_density_edges_are_the_most_congested_of_the_training_days(calendar):
    forecaster = DensityForecaster.load(density.WEIGHTS_FILE)
    days = split_days(calendar.n_days).train
    assert forecaster.edges == density.most_congested(calendar, days)


def test_flow_figures_are_those_of_the_card(calendar):
    forecaster = FlowForecaster.load(flow.WEIGHTS_FILE)
    card, split = forecaster.card, split_days(calendar.n_days)
    assert card.data == describe_data(calendar, split)
    test = flow_windows(calendar.measurements, split.test, flow.TEST_STRIDE)
    forecast, truth = curves_of(forecaster, test)
    told = card.metrics["mae_vehicles_per_minute"]
    for junction, row in forecaster.rows.items():
        ours = test.junctions == row
        error = np.abs(forecast[ours] - truth[ours]).mean()
        assert error == pytest.approx(told["LSTM"][junction], abs=1e-3)
    assert np.abs(forecast - truth).mean() == pytest.approx(card.test_mae, abs=1e-3)
    assert beats_every_other(told)


def test_on_the_test_days_confidence_falls_with_the_minutes_observed(calendar):
    forecaster = FlowForecaster.load(flow.WEIGHTS_FILE)
    test = flow_windows(calendar.measurements, split_days(calendar.n_days).test, 60)
    means = [
        reliability(forecaster, test, observed).confidences.mean()
        for observed in flow.REPORTED_HISTORIES
    ]
    assert (np.diff(means) < 0).all(), means
