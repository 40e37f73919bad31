"""The observation has the documented order, size and range."""

import numpy as np

from lab.sim.observation import encode_observation


def test_order_is_phase_then_flag_then_queues():
    observation = encode_observation(1, 2, True, [4, 0, 10], [8, 8, 40])
    np.testing.assert_allclose(observation, [0, 1, 1, 0.5, 0, 0.25])
    assert observation.dtype == np.float32


def test_flag_is_zero_while_the_phase_must_stay():
    assert encode_observation(0, 2, False, [0], [8])[2] == 0


def test_queue_beyond_capacity_is_one():
    assert encode_observation(0, 2, True, [9], [8])[-1] == 1
