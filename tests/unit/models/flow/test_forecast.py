import json
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from models.artifacts import InvalidArtifactError, card_path
from models.flow.forecast import Calibration, FlowConfig, FlowForecaster
from models.flow.window import WINDOW
from models.networks.shipped import JUNCTIONS
from tests.unit.forecasters import flow_config, flow_network, write_flow

RANDOM = np.random.default_rng(0)


@pytest.fixture
def forecaster(tmp_path: Path) -> FlowForecaster:
    return FlowForecaster.load(write_flow(tmp_path))


def windows(n: int) -> np.ndarray:
    return RANDOM.uniform(0, 30, (n, WINDOW, 3))


def test_confidence_falls_with_every_minute_that_is_missing(forecaster):
    inputs = np.repeat(windows(1), WINDOW, axis=0)
    observed = np.arange(1, WINDOW + 1)
    confidences = forecaster(inputs, np.zeros(WINDOW, np.int64), observed).confidences
    assert (np.diff(confidences) > 0).all()


@pytest.mark.parametrize("value", [0.0, 1e9, 1e300])
def test_extreme_inputs_give_finite_forecasts(forecaster, value):
    forecasts = forecaster(np.full((1, WINDOW, 3), value), np.array([0]), np.array([60]))
    assert np.isfinite(forecasts.flows).all()
    assert 0 <= forecasts.confidences[0] <= 1


def test_a_junction_without_scales_is_refused():
    fields = flow_config().model_dump()
    del fields["scales"][next(iter(JUNCTIONS))]
    with pytest.raises(ValidationError, match="scale of every feature"):
        FlowConfig.model_validate(fields)


def test_offsets_that_do_not_rise_are_refused():
    with pytest.raises(ValidationError, match="strictly rise"):
        Calibration(vehicles=1, share=0.1, slope=1, observed=(1, 60), offsets=(0.5, 0.5))


def test_tolerance_is_the_larger_of_both():
    calibration = Calibration(vehicles=1, share=0.1, slope=1, observed=(60,), offsets=(0,))
    assert calibration.tolerance(np.array([5.0, 10.0, 50.0])).tolist() == [1, 1, 5]


def test_a_card_without_what_model_info_tells_is_refused(tmp_path):
    path = write_flow(tmp_path)
    card = json.loads(card_path(path).read_text())
    del card["metrics"]["within_tolerance"]
    card_path(path).write_text(json.dumps(card))
    with pytest.raises(InvalidArtifactError, match="within_tolerance"):
        FlowForecaster.load(path)


def test_numpy_forecast_equals_the_network(tmp_path):
    network, config = flow_network(0), flow_config()
    inputs, rows = windows(32), np.arange(32) % 5
    mean, std = config.table("mean")[rows], config.table("std")[rows]
    scaled = (inputs - mean[:, None]) / std[:, None]
    with torch.inference_mode():
        outlook = network(torch.from_numpy(scaled.astype(np.float32)), torch.eye(5)[rows])
    flows, scales = FlowForecaster.load(write_flow(tmp_path)).outlook(inputs, rows)
    expected = np.maximum(outlook.median.numpy() * std[:, 0] + mean[:, 0], 0)
    np.testing.assert_allclose(flows, expected, atol=1e-4)
    np.testing.assert_allclose(scales, np.exp(outlook.log_scale.numpy()) * std[:, 0], rtol=1e-4)
