"""Which model is in service, after good files and bad ones."""

from pathlib import Path

import pytest
from pydantic import Field, ValidationError

from deployments.model_slot import ConfiguredModel, ModelSlot, UserConfig


class UnfitError(Exception):
    pass


class Reader:
    """Reads a file's name for its content."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def __call__(self, path: Path) -> str:
        self.read.append(path.name)
        if path.name == "bad":
            raise UnfitError("bad is unfit")
        return path.name


class Config(UserConfig):
    path: str | None = Field(None, alias="fruit_path")


@pytest.fixture
def reader():
    return Reader()


@pytest.fixture
def slot(reader):
    return ModelSlot("fruit", reader, UnfitError)


async def test_a_good_file_takes_the_place_of_the_one_before_and_a_bad_one_says_why(slot, caplog):
    assert (slot.model, slot.problem) == (None, "no fruit file has been read yet")
    for path, model, problem in (
        ("bad", None, "bad is unfit"),
        ("first", "first", None),
        ("second", "second", None),
        ("bad", "second", "bad is unfit"),
        ("second", "second", None),
    ):
        await slot.load(path)
        assert (slot.model, slot.problem) == (model, problem)
    first, second = [each for each in caplog.messages if "bad" in each]
    assert "no model" in first
    assert "the fruit before it stays in service" in second


async def test_a_defect_of_reading_is_no_refusal():
    def fail(path):
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        await ModelSlot("fruit", fail, UnfitError).load("first")


@pytest.mark.parametrize(
    ("user_configs", "read"),
    [
        ([], ["own"]),
        ([{"fruit_path": None, "revision": None}], ["own"]),
        ([{"fruit_path": "other"}], ["own", "other"]),
        ([{"fruit_path": "other"}, {"fruit_path": "other"}], ["own", "other"]),
        ([{"fruit_path": "other"}, {}], ["own", "other", "own"]),
        ([{"revision": 2}, {"revision": 3}, {"revision": 3}], ["own", "own", "own"]),
        ([{"fruit_path": "bad"}], ["own", "bad"]),
    ],
)
async def test_every_new_configuration_reads_once(slot, reader, user_configs, read):
    model = ConfiguredModel(slot, "own", Config)
    await model.start()
    for each in user_configs:
        await model.reconfigure(each)
    assert reader.read == read


@pytest.mark.parametrize("user_config", [{"fruit_pth": "a"}, {"path": "a"}, {"revision": []}])
async def test_a_wrong_configuration_is_refused_and_changes_nothing(slot, user_config):
    model = ConfiguredModel(slot, "own", Config)
    await model.start()
    with pytest.raises(ValidationError):
        await model.reconfigure(user_config)
    assert slot.model == "own"
