from __future__ import annotations

from pathlib import Path

import pytest

from deployments.forecast.model_slot import ModelSlot
from models.artifacts import InvalidArtifactError


def read(path: Path) -> str:
    if path.name == "bad":
        raise InvalidArtifactError("bad")
    return path.name


async def test_a_good_artifact_takes_the_place_of_the_one_before() -> None:
    slot = ModelSlot(read)
    assert slot.model is None
    await slot.load("first")
    await slot.load("second")
    assert slot.model == "second"


async def test_an_artifact_that_cannot_be_served_leaves_the_one_before() -> None:
    slot = ModelSlot(read)
    await slot.load("first")
    await slot.load("bad")
    assert slot.model == "first"


async def test_without_any_good_artifact_there_is_no_model(
    caplog: pytest.LogCaptureFixture,
) -> None:
    slot = ModelSlot(read)
    await slot.load("bad")
    assert slot.model is None
    assert "no model" in caplog.text
