import numpy as np

from lab.train.forecasts.training import LinearAutoregression

RANDOM = np.random.default_rng(0)


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
