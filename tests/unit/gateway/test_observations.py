"""Lane capacities and made-up observations."""

from __future__ import annotations

import random

import pytest

from deployments.gateway.action_request import random_observation
from models.networks.shipped import JUNCTIONS


@pytest.mark.parametrize("junction", JUNCTIONS.values(), ids=lambda junction: junction.id)
def test_a_made_up_observation_could_have_been_seen(junction):
    source = random.Random(1)
    for _ in range(50):
        obs = random_observation(junction, source)
        assert len(obs) == junction.obs_size
        assert sorted(obs[: junction.n_phases]) == [0] * (junction.n_phases - 1) + [1]
        assert obs[junction.n_phases] in (0, 1)
        assert all(0 <= queue <= 1 for queue in obs[junction.n_phases + 1 :])
