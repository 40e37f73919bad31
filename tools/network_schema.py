"""Writes docs/network.schema.json, the JSON Schema of the network file (``make reference``)."""

from __future__ import annotations

import json
from pathlib import Path

from models.networks.form import NetworkFile

PATH = Path(__file__).resolve().parents[1] / "docs" / "network.schema.json"


def schema() -> str:
    """Return the text of the schema: what single values may be; sums are checked on load."""
    described = NetworkFile.model_json_schema()
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps(dialect | described, indent=2) + "\n"


if __name__ == "__main__":
    PATH.write_text(schema(), encoding="utf-8")
