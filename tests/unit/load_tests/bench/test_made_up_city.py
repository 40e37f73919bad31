from __future__ import annotations

from load_tests.bench.made_up_city import made_up_city
from models.networks.network import network_of


def test_a_city_of_any_size_has_observations_and_actions_like_the_documents():
    for n in (1, 21, 300):
        city = network_of(made_up_city(n))
        assert (city.n_agents, city.n_actions, city.max_obs) == (n, 4, 19)


def test_the_same_size_is_the_same_city():
    assert made_up_city(21) == made_up_city(21)
    assert made_up_city(21, seed=1) != made_up_city(21)
