"""What follows from a network: sizes, masks, and what hidden states belong to."""

import pytest

from models.networks.form import NetworkFile
from models.networks.network import network_of
from tests.cities import city_of, entry, small_city


def test_sizes_follow_from_the_junctions_in_the_order_of_their_indices():
    city = small_city()
    assert city.ids == ("north", "east", "west")
    assert (city.n_agents, city.n_actions, city.max_obs) == (3, 3, 7)
    assert city.obs_sizes.tolist() == [7, 6, 7]
    assert city.unavailable.tolist() == [[False] * 3, *[[False, False, True]] * 2]
    assert city.avail_actions("east") == (1, 1, 0)
    assert city.junctions["west"].capacities == (10, 11, 12, 13)


@pytest.mark.parametrize(
    "other",
    [
        city_of(entry("a", 0), entry("c", 1)),
        city_of(entry("a", 1), entry("b", 0)),
        city_of(entry("a", 0, 3), entry("b", 1)),
        city_of(entry("a", 0, 2, 4), entry("b", 1)),
        city_of(entry("a", 0)),
    ],
    ids=["id", "index", "phases", "lanes", "fewer"],
)
def test_hidden_states_of_other_junctions_belong_to_another_network(other):
    assert other.digest != city_of(entry("a", 0), entry("b", 1)).digest


def test_observed_crossings_add_a_value_each_and_make_another_network():
    walked = entry("a", 0) | {
        "links": [
            *({"lane": f"a_{lane}", "to": "away"} for lane in range(3)),
            {"lane": ":a_w0_0", "to": ":a_c0_0"},
            {"lane": ":a_w1_0", "to": ":a_c1_0"},
        ]
    }
    without, observed = (
        network_of(
            NetworkFile.model_validate(
                {"name": "a city", "junctions": [walked], "pedestrian_calls": asked}
            )
        )
        for asked in (False, True)
    )
    assert without.digest == city_of(entry("a", 0)).digest != observed.digest
    assert (without.max_obs, observed.max_obs) == (6, 8)
    assert observed.junctions["a"].scales == (10, 11, 12, 120, 120)


def test_names_capacities_and_order_in_the_file_leave_hidden_states_what_they_are():
    wider = entry("b", 1)
    wider["lanes"][0] |= {"capacity": 99}
    city = city_of(wider, entry("a", 0), name="renamed")
    assert city.digest == city_of(entry("a", 0), entry("b", 1)).digest
