import random
from collections import Counter

import pytest

from deployments.metrics.sampled import Sampled


def test_each_value_is_kept_as_often_as_any_other_the_last_as_the_first():
    size, values, rounds = 5, 40, 4000
    sampled = Sampled[int](size, random.Random(1))
    kept: Counter[int] = Counter()
    for _ in range(rounds):
        for value in range(values):
            sampled.observe(value)
        sample = sampled.take()
        assert len(set(sample)) == size
        kept.update(sample)
    expected = rounds * size / values
    deviation = (expected * (1 - size / values)) ** 0.5
    assert [kept[value] for value in range(values)] == pytest.approx(
        [expected] * values, abs=4 * deviation
    )


def test_up_to_its_size_it_keeps_every_value_and_gives_none_twice():
    sampled = Sampled[int](2, random.Random(1))
    for value in range(10):
        sampled.observe(value)
    sampled.take()
    assert sampled.take() == []
    sampled.observe(10)
    sampled.observe(11)
    assert sampled.take() == [10, 11]
