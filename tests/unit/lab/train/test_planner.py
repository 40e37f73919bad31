"""The planner's rule of the longest red is that of the safety layer."""

import numpy as np
import pytest

from lab.train.planner import _MaximumRed
from models.networks.shipped import SHIPPED
from models.signals.safety import Limits, Shown, read_layers


@pytest.mark.parametrize("junction", SHIPPED.ids)
def test_the_maximum_red_is_that_of_the_layer(junction):
    layer = read_layers(Limits(), SHIPPED)[junction]
    rule, n_phases = _MaximumRed(layer), len(layer.phases)
    rng = np.random.default_rng(1)
    forced = []
    for _ in range(500):
        shown, asked = rng.integers(n_phases, size=2)
        reds_s = rng.uniform(60, 125, n_phases)
        reds_s[shown] = 0
        made = layer.decide(Shown(int(shown), 20.0, tuple(reds_s)), int(asked))
        replaces = rule.replaces(reds_s, shown, asked)  # also where it forces what is asked for
        assert replaces if made.rule == "maximum_red" else replaces or made.phase == asked
        forced.append(made.rule == "maximum_red")
    assert 0.05 < np.mean(forced) < 0.95
