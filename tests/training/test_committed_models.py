"""The shipped models are those of their cards: they give the same figures on the committed days."""

from collections.abc import Iterable
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
from lab.train.forecasts.training import Comparison, describe_data
from models.artifacts import Card
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
    assert forecaster.edges == density.most_congested(calendar, split.train)
    test = density_windows(calendar.density_of(forecaster.edges), split.test, HOUR_SLOTS)
    told: dict[str, Any] = card.metrics["mae_vehicles_per_km"]
    check(forecaster.card, told, forecaster.edges, forecaster(test.inputs) - test.targets)


def test_flow_figures_are_those_of_the_card(calendar):
    forecaster = FlowForecaster.load(flow.WEIGHTS_FILE)
    card, split = forecaster.card, split_days(calendar.n_days)
    assert card.data == describe_data(calendar, split)
    test = flow_windows(calendar, split.test, flow.TEST_STRIDE)
    told = card.metrics["mae_vehicles_per_minute"]
    check(card, told, forecaster.rows, flow.forecast_all(forecaster, test) - test.targets)


def check(card: Card, told: Comparison, columns: Iterable[str], errors: np.ndarray) -> None:
    found = np.abs(errors).mean(axis=0)
    assert found.tolist() == pytest.approx([told["LSTM"][each] for each in columns], abs=1e-3)
    assert found.mean() == pytest.approx(card.test_mae, abs=1e-3)
    assert beats_every_other(told)


def test_on_the_test_days_confidence_falls_with_the_minutes_observed(calendar):
    forecaster = FlowForecaster.load(flow.WEIGHTS_FILE)
    test = flow_windows(calendar, split_days(calendar.n_days).test, 60)
    means = [
        flow.reliability(forecaster, test, observed).confidences.mean()
        for observed in flow.REPORTED_HISTORIES
    ]
    assert (np.diff(means) < 0).all(), means
