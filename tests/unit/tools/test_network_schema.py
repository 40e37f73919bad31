"""docs/network.schema.json is what the code checks."""

import json
from pathlib import Path

import jsonschema
import pytest

from models.networks.file import read_network_file
from tools.network_schema import PATH, schema

HARBOUR = Path(__file__).resolve().parents[3] / "configs" / "harbour.json"


def test_the_schema_in_the_documentation_is_the_present_one():
    assert PATH.read_text(encoding="utf-8") == schema(), "run `make reference`"


def test_the_example_is_a_network_by_the_schema():
    assert len(read_network_file(HARBOUR).junctions) == 3
    example = json.loads(HARBOUR.read_text())
    jsonschema.validate(example, json.loads(schema()))
    example["junctions"][0]["agent_index"] = -1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(example, json.loads(schema()))
