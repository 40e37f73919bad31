import numpy as np

from models.networks.shipped import JUNCTIONS, MAX_OBS, SHIPPED
from models.policy.inputs import InputLayout

LAYOUT = InputLayout(SHIPPED)


def test_all_junctions_stand_in_table_order_padded_and_with_their_own_bit():
    observations = {
        junction.id: np.linspace(0.5, 1, junction.obs_size, dtype=np.float32)
        for junction in reversed(list(JUNCTIONS.values()))
    }
    inputs = LAYOUT.encode_all(observations)
    assert inputs.shape == (5, 24)
    assert inputs.dtype == np.float32
    np.testing.assert_array_equal(inputs[:, MAX_OBS:], np.eye(5))
    for row, junction in zip(inputs, JUNCTIONS.values(), strict=True):
        np.testing.assert_array_equal(row[: junction.obs_size], observations[junction.id])
        assert not row[junction.obs_size : MAX_OBS].any()


def test_an_agent_may_stand_in_several_rows_and_see_nothing():
    inputs = LAYOUT.encode([3, 3], [[0.25, 0.5], []])
    assert inputs[0, :3].tolist() == [0.25, 0.5, 0]
    assert not inputs[1, :MAX_OBS].any()
    assert inputs[:, MAX_OBS:].tolist() == [[0, 0, 0, 1, 0]] * 2


def test_values_that_no_training_has_had_are_counted():
    agents = [0, 1, 1]
    inputs = LAYOUT.encode(agents, [[1.0] * 19, [0.0] * 8, [-0.1, 1.5, 1.0, *[0.0] * 5, 0.2]])
    assert LAYOUT.count_out_of_range(agents, inputs) == (3, 19 + 8 + 6)


def test_values_beyond_those_of_the_junction_are_not_subtracted_from_the_others():
    inputs = LAYOUT.encode([1], [[0.5] * 19])
    assert LAYOUT.count_out_of_range([1], inputs) == (11, 8)
