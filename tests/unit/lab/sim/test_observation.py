"""The observation has the documented order, size and range."""

import numpy as np

from lab.sim.observation import encode_observation


def test_order_is_phase_then_flag_then_queues_which_are_one_beyond_the_capacity():
    observation = encode_observation(1, 2, True, [4, 0, 10, 9], [8, 8, 40, 8])
    np.testing.assert_allclose(observation, [0, 1, 1, 0.5, 0, 0.25, 1])
    assert observation.dtype == np.float32
    assert encode_observation(0, 2, False, [0], [8])[2] == 0
