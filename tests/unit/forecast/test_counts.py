from __future__ import annotations

from deployments.forecast.service import ForecastCounts
from deployments.metrics.sampled import SAMPLE


def test_batches_are_taken_once_and_their_number_is_bounded():
    counts = ForecastCounts[int](lambda inputs: {"column": float(sum(inputs))})
    for _ in range(3 * SAMPLE):
        counts.batch(2, 0.001, 1)
    batches, drift = counts.take_batches()
    assert batches == [(2, 0.001)] * SAMPLE
    assert drift == {"column": float(SAMPLE)}
    assert counts.take_batches() == ([], {})
