from __future__ import annotations

from dataclasses import fields
from typing import Any, get_type_hints

import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

from models.training.mappo.config import Config


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"reward": "speed"}, "reward 'speed' is not one of"),
        ({"average_decay": 1.0}, "average_decay 1.0 is not from 0 to below 1"),
        ({"iterations": 0}, "iterations 0 is less than 1"),
        ({"validate_every": 0}, "validate_every 0 is less than 1"),
        ({"episodes": 0, "repeats": 0}, "episodes 0 is less than 1"),
        ({"faults": 1.5}, "faults 1.5 is not from 0 to 1"),
        ({"temperature": 0.0}, "temperature 0.0 is not above 0"),
        ({"temperature": float("inf")}, "temperature inf is not above 0 and finite"),
        ({"curriculum_iterations": 0}, "curriculum_iterations 0 is less than 1"),
        ({"duration_s": 0}, "duration_s 0 is less than 1"),
        ({"breakdowns": -0.1}, "breakdowns -0.1 is not from 0 to 1"),
        ({"levels": "0.5,0.5"}, "levels '0.5,0.5' are not shares, 0 or more, of low, medium"),
        ({"levels": "1,1,-1,1"}, "are not shares"),
        ({"levels": "0,0,0,0"}, "are not shares"),
        ({"levels": "1,1,1,much"}, "are not shares"),
        ({"levels": "1,1,1,nan"}, "are not shares"),
        ({"rate_factor": 0.5}, "rate_factor 0.5 is less than 1"),
        ({"episodes": 8, "repeats": 3}, "8 episodes are not groups of 3 repeats"),
        ({"duration_s": 1000, "chunk": 24}, "1000 s are not a multiple of chunks of 120 s"),
    ],
)
def test_impossible_configuration_is_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Config(**changes)


def test_every_hyperparameter_is_explained() -> None:
    hints = get_type_hints(Config, include_extras=True)
    explained = {name: hint.__metadata__[0] for name, hint in hints.items()}
    assert [field.name for field in fields(Config)] == list(explained)
    assert all(explained.values())
    assert explained["critic_rate"] == "Adam's initial step size for the critic"
