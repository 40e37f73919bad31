"""The forecasts' days and windows, what they are compared with, and their confidence."""

import numpy as np
import pytest

from lab.net.net import load_net
from lab.sim.daily_demand import HOUR_S
from lab.train.forecasts.calibrate import LEAST_RISE, calibrate, shortened_inputs, strictly_rising
from lab.train.forecasts.dataset import (
    DAY_SLOTS,
    HOUR_SLOTS,
    MINUTES,
    Calendar,
    density_windows,
    flattened,
    flow_windows,
    join_days,
    split_days,
)
from lab.train.forecasts.generate import WEEKEND, draw_day, is_weekend
from lab.train.forecasts.training import LinearAutoregression
from models.flow.forecast import FlowForecaster
from models.flow.window import HORIZON, MINUTE_S, WINDOW, make_window
from models.networks.shipped import NET_FILE
from tests.calendars import wave_calendar
from tests.unit.forecasters import write_flow

RANDOM = np.random.default_rng(0)
WINDOWS = flow_windows(wave_calendar(1), range(1), stride=10)
INPUTS, JUNCTIONS = flattened(WINDOWS)


def test_a_day_is_the_same_on_every_call_and_no_other():
    assert draw_day(3) == draw_day(3)
    assert draw_day(3) != draw_day(10)
    assert draw_day(3).seed != draw_day(10).seed


def test_two_days_of_seven_are_weekend():
    assert [number for number in range(14) if is_weekend(number)] == [5, 6, 12, 13]
    assert draw_day(5).expected is WEEKEND
    assert draw_day(4).expected is not WEEKEND


def test_breakdowns_leave_a_lane_open():
    lanes = {edge: len(known) for edge, known in load_net(NET_FILE).edge_lanes.items()}
    breakdowns = [each for number in range(100) for each in draw_day(number).breakdowns]
    assert len(breakdowns) > 30
    for breakdown in breakdowns:
        assert 0 <= breakdown.lane < lanes[breakdown.edge]
        assert lanes[breakdown.edge] > 1
        assert 6 * HOUR_S <= breakdown.depart_s < 21 * HOUR_S


def hours_of(n_days: int) -> np.ndarray:
    """Return (slots, 1): every hour's density is its number."""
    return np.repeat(np.arange(n_days * 24.0), HOUR_SLOTS)[:, None]


def test_density_windows_are_three_hours_and_the_next():
    windows = density_windows(hours_of(3), range(1, 3), HOUR_SLOTS)
    assert windows.inputs[0, :, 0].tolist() == [24, 25, 26]
    assert windows.targets[0, 0] == 27
    assert windows.targets[-1, 0] == 71
    assert windows.yesterday[0, 0] == 3


def test_hours_may_begin_at_any_slot_in_training():
    windows = density_windows(hours_of(1), range(1), stride=1)
    assert windows.inputs[1, 0, 0] == pytest.approx(1 / HOUR_SLOTS)
    assert len(windows.targets) == DAY_SLOTS - 4 * HOUR_SLOTS + 1


def test_flow_windows_stay_in_their_days_and_look_at_what_follows():
    calendar = wave_calendar(3)
    windows = flow_windows(calendar, range(1, 2), stride=7)
    ends = np.arange(MINUTES + WINDOW, 2 * MINUTES - HORIZON + 1, 7)
    assert len(ends) == len(windows.targets)
    counts, end, junction = calendar.vehicle_count, ends[8], 3
    assert windows.inputs[8, junction, -1, 0] == counts[end - 1, junction]
    followed = counts[end : end + HORIZON, junction].mean()
    assert windows.targets[8, junction] == pytest.approx(followed)
    yesterday = counts[end - MINUTES : end - MINUTES + HORIZON, junction].mean()
    assert windows.yesterday[8, junction] == pytest.approx(yesterday)


def test_too_few_days_are_refused():
    with pytest.raises(ValueError, match="too few"):
        split_days(28)


def test_days_are_joined_in_their_order_and_read_as_they_were_written(tmp_path):
    one, other = wave_calendar(1), wave_calendar(2)
    join_days([one, other]).save(tmp_path / "days.npz")
    read = Calendar.load(tmp_path / "days.npz")
    assert (read.edges, read.junctions, read.n_days) == (one.edges, one.junctions, 3)
    np.testing.assert_array_equal(read.vehicle_count[MINUTES:], other.vehicle_count)
    np.testing.assert_array_equal(read.density[:DAY_SLOTS], one.density)


def test_a_linear_relation_is_found():
    inputs = RANDOM.uniform(1, 9, (500, 3, 2))
    targets = inputs[:, -1] + 0.5 * inputs[:, 0] + 2
    model = LinearAutoregression(inputs, targets, ridge=1e-9)
    fresh = RANDOM.uniform(1, 9, (10, 3, 2))
    np.testing.assert_allclose(model(fresh), fresh[:, -1] + 0.5 * fresh[:, 0] + 2, atol=1e-4)


def test_forecasts_are_not_negative():
    inputs = RANDOM.uniform(0, 1, (50, 2, 1))
    model = LinearAutoregression(inputs, inputs[:, -1] - 5)
    assert (model(inputs) == 0).all()


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


def test_confidence_is_the_frequency_of_the_event_and_rises_with_the_history(tmp_path):
    forecaster = FlowForecaster.load(write_flow(tmp_path))
    calibration = calibrate(forecaster, WINDOWS)
    assert np.diff(calibration.offsets).min() > 0
    flows, scales = forecaster.outlook(INPUTS, JUNCTIONS)
    confidences = calibration.confidence(flows, scales, np.full(len(flows), WINDOW))
    hits = np.abs(flows.round() - WINDOWS.targets.ravel()) <= calibration.tolerance(flows.round())
    assert confidences.mean() == pytest.approx(hits.mean(), abs=0.01)
