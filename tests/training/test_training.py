import numpy as np
import torch

from lab.train.forecasts import density, flow
from lab.train.forecasts.dataset import Split
from lab.train.forecasts.training import FitSettings, fit
from models.artifacts import card_path
from models.density.forecast import DensityForecaster
from models.flow.forecast import FlowForecaster
from tests.calendars import wave_calendar

CALENDAR = wave_calendar(5)
SPLIT = Split(range(3), range(3, 4), range(4, 5))


def test_density_training_learns_waves_and_writes_all_that_is_served(tmp_path):
    path = tmp_path / "density.safetensors"
    settings = FitSettings(learning_rate=0.01, max_epochs=12)
    density.train(CALENDAR, SPLIT, path, tmp_path, settings)
    forecaster = DensityForecaster.load(path)
    assert forecaster.edges == ("path", "lane", "ring", "west", "south")
    errors = forecaster.card.metrics["mae_vehicles_per_km"]
    assert errors["LSTM"]["all"] < 0.7 * errors["persistence"]["all"]
    assert forecaster.card.test_mae == errors["LSTM"]["all"]
    assert "| path |" in (tmp_path / "density.md").read_text()


def test_density_training_is_reproducible(tmp_path):
    paths = [tmp_path / name for name in ("a.safetensors", "b.safetensors")]
    for path in paths:
        density.train(CALENDAR, SPLIT, path, tmp_path, FitSettings(max_epochs=2))
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_flow_training_writes_all_that_is_served(tmp_path):
    path = tmp_path / "flow.safetensors"
    flow.train(CALENDAR, SPLIT, path, tmp_path, FitSettings(max_epochs=2))
    forecaster = FlowForecaster.load(path)
    metrics = forecaster.card.metrics
    assert metrics["mae_vehicles_per_minute"]["LSTM"]["all"] == forecaster.card.test_mae
    assert forecaster.card.test_mae < 5
    assert 0 < metrics["within_tolerance"] < 1
    assert metrics["calibration_error"] < 0.2
    assert np.diff(forecaster.calibration.offsets).min() > 0
    assert card_path(path).exists()
    assert "| minutes observed |" in (tmp_path / "flow.md").read_text()


def test_training_ends_without_progress_and_keeps_the_best():
    network = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(network.weight)
    errors = iter([3.0, 1.0, 2.0, 2.0, 2.0, 0.0])
    weights = []

    def validate() -> float:
        weights.append(float(network.weight.detach()))
        return next(errors)

    def loss_of(rows: torch.Tensor) -> torch.Tensor:
        one = torch.ones(1, 1)
        return torch.nn.functional.l1_loss(network(one), 10 * one)

    settings = FitSettings(learning_rate=0.1, max_epochs=10, patience=3)
    best = fit(network, 1, 1, loss_of, validate, settings)
    assert best == 1.0
    assert len(weights) == 5
    assert float(network.weight.detach()) == weights[1] != weights[-1]
