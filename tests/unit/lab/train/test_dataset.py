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
    np.testing.assert_array_equal(both[:, 0], calendar.density[:, EDGES.index("ring")])
    np.testing.assert_array_equal(both[:, 1], calendar.density[:, 0])


def test_days_are_joined_in_their_order_and_read_as_they_were_written(tmp_path):
    one, other = wave_calendar(1), wave_calendar(2)
    join_days([one, other]).save(tmp_path / "days.npz")
    read = Calendar.load(tmp_path / "days.npz")
    assert (read.edges, read.junctions, read.n_days) == (one.edges, one.junctions, 3)
    np.testing.assert_array_equal(read.vehicle_count[MINUTES:], other.vehicle_count)
    np.testing.assert_array_equal(read.density[:DAY_SLOTS], one.density)
