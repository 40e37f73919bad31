"""The page of every argument and variable is the one that the models make."""

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from serve_app.rollout.services import SERVICES
from serve_app.settings import Settings
from tools.configuration_reference import PAGE, reference

MODELS: list[type[BaseModel]] = [Settings]
MODELS += [model for each in SERVICES for model in (each.options, each.user_config) if model]
FIELDS = [
    (name, field) for model in dict.fromkeys(MODELS) for name, field in model.model_fields.items()
]
NUMBERS = [(name, field) for name, field in FIELDS if field.annotation in (int, float)]


def row(name: str, field: FieldInfo) -> list[str]:
    """Return the cells of a field: name, meaning, default, range."""
    names = {f"`{each}`" for each in (name, name.upper(), field.alias)}
    rows = [line.strip("|\n").split("|") for line in reference().splitlines()]
    cells = [[cell.strip() for cell in row] for row in rows]
    return next(row for row in cells if row[0] in names and row[1:2] == [field.description])


def test_the_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == reference(), "run `make reference`"


def test_the_page_is_the_same_on_every_machine(monkeypatch, tmp_path):
    before = reference()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JWT_EXPIRATION_MINUTES", "7")
    assert reference() == before


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_every_argument_and_variable_has_a_meaning(name, field):
    assert row(name, field)[1].endswith(".")


@pytest.mark.parametrize(("name", "field"), NUMBERS)
def test_every_number_has_a_default_and_a_range(name, field):
    assert all(row(name, field)[2:]), row(name, field)
