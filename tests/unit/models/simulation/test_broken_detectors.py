"""Detectors that fail: one lane of each junction, the same all the time, and nobody else's view."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

from models.networks.shipped import JUNCTIONS
from models.simulation.broken_detectors import BrokenDetectors, WithBrokenDetectors
from models.simulation.observation import Observation


class Looking:
    """Keeps what it was shown."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Observation]] = []

    def reset(self) -> None: ...

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        self.seen.append({name: each.copy() for name, each in observations.items()})
        return {}


def test_one_lane_of_each_junction_reads_the_same_and_all_else_is_seen_as_it_is() -> None:
    looking = Looking()
    controller = WithBrokenDetectors(looking, BrokenDetectors(0.5, seed=1))
    rng = np.random.default_rng(0)
    broken: list[set[tuple[str, int]]] = []
    for _ in range(3):
        real = {
            each.id: rng.uniform(0.6, 1, each.obs_size).astype(np.float32)
            for each in JUNCTIONS.values()
        }
        before = {name: each.copy() for name, each in real.items()}
        controller.act(real)
        assert all((real[name] == before[name]).all() for name in real)
        places = {
            (name, int(place))
            for name in real
            for place in np.flatnonzero(looking.seen[-1][name] != real[name])
        }
        assert len(places) == len(JUNCTIONS)
        assert all(looking.seen[-1][name][place] == 0.5 for name, place in places)
        assert all(place > JUNCTIONS[name].n_phases for name, place in places)
        broken.append(places)
    assert broken[0] == broken[1] == broken[2]


def test_another_seed_breaks_other_lanes() -> None:
    drawn = [BrokenDetectors(0.0, seed)._broken for seed in range(5)]
    assert len({tuple(each.values()) for each in drawn}) > 1
