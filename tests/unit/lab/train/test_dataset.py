import numpy as np
import pytest

from lab.train.forecasts.dataset import (
    DAY_SLOTS,
    HOUR_SLOTS,
    MINUTES,
    Calendar,
    density_windows,
    flow_windows,
    join_days,
    split_days,
)
from models.flow.window import HORIZON, WINDOW
from tests.calendars import EDGES, wave_calendar


def hours_of(n_days: int) -> np.ndarray:
    """Return (slots, 1): every hour's density is its number."""
    return np.repeat(np.arange(n_days * 24.0), HOUR_SLOTS)[:, None]


def test_density_windows_are_three_hours_and_the_next():
    windows = density_windows(hours_of(3), range(1, 3), HOUR_SLOTS)
    assert windows.inputs[0, :, 0].tolist() == [24, 25, 26]
    assert windows.targets[0, 0] == 27
    assert windows.targets[-1, 0] == 71
    assert windows.yesterday[0, 0] == 3
    assert windows.hours[0] == 27


def test_hours_may_begin_at_any_slot_in_training():
    windows = density_windows(hours_of(1), range(1), stride=1)
    assert windows.inputs[1, 0, 0] == pytest.approx(1 / HOUR_SLOTS)
    assert len(windows.targets) == DAY_SLOTS - 4 * HOUR_SLOTS + 1


def test_flow_windows_look_at_what_follows():
    calendar = wave_calendar(2)
    windows = flow_windows(calendar.measurements, range(1, 2), stride=7)
    counts = calendar.measurements.vehicle_count
    start, junction = int(windows.starts[8]), int(windows.junctions[8])
    first = start + WINDOW
    assert windows.inputs()[8, -1, 0] == counts[first - 1, junction]
    assert windows.targets()[8] == pytest.approx(counts[first : first + HORIZON, junction].mean())
    yesterday = counts[first - MINUTES : first - MINUTES + HORIZON, junction].mean()
    assert windows.targets(days_before=1)[8] == pytest.approx(yesterday)


def test_flow_windows_stay_in_their_days():
    windows = flow_windows(wave_calendar(3).measurements, range(1, 2), stride=1)
    assert windows.starts.min() == MINUTES
    assert windows.starts.max() + WINDOW + HORIZON == 2 * MINUTES


def test_the_parts_of_a_split_do_not_meet_and_cover_all_days():
    split = split_days(63)
    assert [*split.train, *split.validation, *split.test] == list(range(63))
    assert len(split.test) == len(split.validation) == 14


def test_too_few_days_are_refused():
    with pytest.raises(ValueError, match="too few"):
        split_days(28)


def test_columns_are_found_by_name():
    calendar = wave_calendar(1)
    both = calendar.density_of(["ring", "north"])
    density = calendar.measurements.density
    np.testing.assert_array_equal(both[:, 0], density[:, EDGES.index("ring")])
    np.testing.assert_array_equal(both[:, 1], density[:, 0])


def test_a_calendar_is_read_as_it_was_written(tmp_path):
    calendar = wave_calendar(1)
    calendar.save(tmp_path / "days.npz")
    read = Calendar.load(tmp_path / "days.npz")
    assert (read.edges, read.junctions, read.n_days) == (calendar.edges, calendar.junctions, 1)
    np.testing.assert_array_equal(read.measurements.density, calendar.measurements.density)


def test_days_are_joined_in_their_order():
    one, other = wave_calendar(1).measurements, wave_calendar(2).measurements
    joined = join_days([one, other])
    assert len(joined.vehicle_count) == 3 * MINUTES
    np.testing.assert_array_equal(joined.vehicle_count[MINUTES:], other.vehicle_count)
