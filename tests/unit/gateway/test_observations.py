"""Lane capacities and made-up observations."""

from __future__ import annotations

import random

import pytest

from deployments.gateway.action_request import random_observation
from models.networks.shipped import JUNCTIONS, SHIPPED


@pytest.mark.parametrize("junction", JUNCTIONS.values(), ids=lambda junction: junction.id)
def test_a_made_up_observation_could_have_been_seen(junction):
    source = random.Random(1)
    for _ in range(50):
        obs = random_observation(junction, source)
        assert len(obs) == junction.obs_size
        assert sorted(obs[: junction.n_phases]) == [0] * (junction.n_phases - 1) + [1]
        assert obs[junction.n_phases] in (0, 1)
        assert all(0 <= queue <= 1 for queue in obs[junction.n_phases + 1 :])


def test_the_shipped_capacities_are_those_of_the_shipped_road_network():
    road_network = pytest.importorskip("models.simulation.road_network")
    for junction_id, layout in road_network.read_network().junctions.items():
        capacities = [lane.capacity for lane in layout.lanes]
        assert SHIPPED.junctions[junction_id].capacities == pytest.approx(capacities, abs=0.06)
