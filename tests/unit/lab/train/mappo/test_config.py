from __future__ import annotations

from dataclasses import fields
from typing import Any, get_type_hints

import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

from lab.train.imitation.dagger import Imitation
from lab.train.mappo.config import Config
from lab.train.mappo.traffic import Mix


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"reward": "speed"}, "reward 'speed' is not one of"),
        ({"average_decay": 1.0}, "average_decay 1.0 is not from 0 to below 1"),
        ({"iterations": -1}, "iterations -1 is negative"),
        ({"validate_every": 0}, "validate_every 0 is less than 1"),
        ({"episodes": 0, "repeats": 0}, "episodes 0 is less than 1"),
        ({"temperature": 0.0}, "temperature 0.0 is not above 0"),
        ({"temperature": float("inf")}, "temperature inf is not above 0 and finite"),
        ({"rate_factor": 0.5}, "rate_factor 0.5 is less than 1"),
        ({"episodes": 8, "repeats": 3}, "8 episodes are not groups of 3 repeats"),
    ],
)
def test_impossible_configuration_is_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Config(**changes)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"faults": 1.5}, "faults 1.5 is not from 0 to 1"),
        ({"breakdowns": -0.1}, "breakdowns -0.1 is not from 0 to 1"),
        ({"curriculum_iterations": 0}, "curriculum_iterations 0 is less than 1"),
        ({"duration_s": 0}, "duration_s 0 is less than 1"),
        ({"levels": "0.5,0.5"}, "levels '0.5,0.5' are not shares, 0 or more, of low, medium"),
        ({"levels": "1,1,-1,1"}, "are not shares"),
        ({"levels": "0,0,0,0"}, "are not shares"),
        ({"levels": "1,1,1,much"}, "are not shares"),
        ({"levels": "1,1,1,nan"}, "are not shares"),
    ],
)
def test_an_impossible_mix_of_traffic_is_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Mix(**changes)


@pytest.mark.parametrize("kind", [Config, Imitation, Mix])
def test_every_option_is_explained(kind: type[Config | Imitation | Mix]) -> None:
    hints = get_type_hints(kind, include_extras=True)
    explained = {name: hint.__metadata__[0] for name, hint in hints.items()}
    assert [field.name for field in fields(kind)] == list(explained)
    assert all(explained.values())
