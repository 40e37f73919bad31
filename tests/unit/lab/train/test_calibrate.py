import numpy as np
import pytest

from lab.train.forecasts.calibrate import LEAST_RISE, calibrate, shortened_inputs, strictly_rising
from lab.train.forecasts.dataset import flattened, flow_windows
from models.flow.forecast import FlowForecaster
from models.flow.window import MINUTE_S, WINDOW, make_window
from tests.calendars import wave_calendar
from tests.unit.forecasters import write_flow

WINDOWS = flow_windows(wave_calendar(1), range(1), stride=10)
INPUTS, JUNCTIONS = flattened(WINDOWS)


@pytest.mark.parametrize("observed", [1, 2, 30, 59, 60])
def test_histories_are_shortened_as_in_service(observed):
    minutes = np.arange(WINDOW - observed, WINDOW) * MINUTE_S
    shortened = shortened_inputs(INPUTS, observed)
    for full, short in zip(INPUTS[:20], shortened[:20], strict=True):
        served = make_window(minutes, full[-observed:])
        np.testing.assert_array_equal(short, served.features)
        assert served.observed == observed


def test_values_that_fall_are_pooled_and_then_tilted():
    rising = strictly_rising([0.0, 3.0, 1.0, 5.0])
    assert rising == pytest.approx([-3 * LEAST_RISE, 2 - 2 * LEAST_RISE, 2 - LEAST_RISE, 5])


def test_confidence_is_the_frequency_of_the_event_and_rises_with_the_history(
    tmp_path,
):
    forecaster = FlowForecaster.load(write_flow(tmp_path))
    calibration = calibrate(forecaster, WINDOWS)
    assert np.diff(calibration.offsets).min() > 0
    flows, scales = forecaster.outlook(INPUTS, JUNCTIONS)
    confidences = calibration.confidence(flows, scales, np.full(len(flows), WINDOW))
    hits = np.abs(flows.round() - WINDOWS.targets.ravel()) <= calibration.tolerance(flows.round())
    assert confidences.mean() == pytest.approx(hits.mean(), abs=0.01)
