import numpy as np
import pytest

from models.flow.window import WINDOW, Window, make_window


def window_of(ages_min: list[float], counts: list[float]) -> Window:
    timestamps = np.array([1_000_000 - round(60 * age) for age in ages_min], np.int64)
    samples = np.stack([counts, [30.0] * len(counts), [0.1] * len(counts)], axis=1)
    return make_window(timestamps, samples)


@pytest.mark.parametrize("n_samples", [60, 100])
def test_a_full_hour_is_taken_as_it_is_and_only_the_newest_samples_count(n_samples):
    counts = np.arange(float(n_samples))
    window = window_of(list(range(n_samples - 1, -1, -1)), counts.tolist())
    np.testing.assert_array_equal(window.features[:, 0], counts[-60:])
    assert window.observed == 60


@pytest.mark.parametrize(
    ("ages_min", "counts", "newest", "observed"),
    [
        ([0], [7], [7, 7], 1),
        ([2, 1, 0], [5, 6, 7], [5, 5, 6, 7], 3),
        ([4, 1, 0], [10, 16, 20], [10, 12, 14, 16, 20], 3),
        ([1.5, 0.5, 0], [10, 20, 30], [15, 30], 3),
        ([0.4, 0.2, 0], [1, 2, 3], [3], 1),
        ([age / 60 for age in range(59, -1, -1)], [3.0] * 60, [3, 3], 2),
        ([10_000, 0], [100, 4], [4], 1),
    ],
    ids=[
        *("one sample", "a short history", "a gap", "off the minute", "within a minute"),
        *("a second apart", "long ago"),
    ],
)
def test_minutes_without_a_sample_are_interpolated_and_the_old_end_is_padded(
    ages_min, counts, newest, observed
):
    window = window_of(ages_min, counts)
    assert window.features.shape == (WINDOW, 3)
    assert window.features[-len(newest) :, 0] == pytest.approx(newest)
    oldest = np.interp(1 - WINDOW, [-age for age in ages_min], counts)
    assert window.features[0, 0] == pytest.approx(oldest)
    assert window.observed == observed
