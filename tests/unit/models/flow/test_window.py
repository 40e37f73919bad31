import numpy as np
import pytest

from models.flow.window import WINDOW, Window, make_window


def window_of(ages_min: list[float], counts: list[float]) -> Window:
    timestamps = np.array([1_000_000 - round(60 * age) for age in ages_min], np.int64)
    samples = np.stack([counts, [30.0] * len(counts), [0.1] * len(counts)], axis=1)
    return make_window(timestamps, samples)


def test_a_full_hour_is_taken_as_it_is():
    counts = np.arange(60.0)
    window = window_of(list(range(59, -1, -1)), counts.tolist())
    np.testing.assert_array_equal(window.features[:, 0], counts)
    assert window.observed == 60


def test_only_the_newest_sixty_samples_count():
    counts = np.arange(100.0)
    window = window_of(list(range(99, -1, -1)), counts.tolist())
    np.testing.assert_array_equal(window.features[:, 0], counts[40:])


def test_one_sample_fills_the_window_and_counts_once():
    window = window_of([0], [7])
    assert window.features.shape == (WINDOW, 3)
    assert (window.features[:, 0] == 7).all()
    assert window.observed == 1


def test_a_short_history_is_padded_at_its_old_end():
    window = window_of([2, 1, 0], [5, 6, 7])
    assert window.features[-3:, 0].tolist() == [5, 6, 7]
    assert (window.features[:-3, 0] == 5).all()
    assert window.observed == 3


def test_gaps_are_interpolated():
    window = window_of([4, 1, 0], [10, 16, 20])
    assert window.features[-5:, 0].tolist() == [10, 12, 14, 16, 20]
    assert window.observed == 3


def test_samples_off_the_minute_are_interpolated_to_the_minute():
    window = window_of([1.5, 0.5, 0], [10, 20, 30])
    assert window.features[-2, 0] == pytest.approx(15)
    assert window.features[-1, 0] == 30


def test_samples_within_one_minute_count_as_one():
    assert window_of([0.4, 0.2, 0], [1, 2, 3]).observed == 1


def test_sixty_samples_a_second_apart_do_not_pass_for_an_hour():
    window = window_of([age / 60 for age in range(59, -1, -1)], [3.0] * 60)
    assert window.observed == 2


def test_a_sample_long_ago_only_bends_the_interpolation():
    window = window_of([10_000, 0], [100, 4])
    assert window.observed == 1
    assert window.features[0, 0] == pytest.approx(4 + 96 * 59 / 10_000)
